"""Synonyms of recipe keys and kinds: the words of other toolkits.

Sources: JoeyNMT, OpenNMT-py, fairseq, Sockeye, Marian, Hugging Face Transformers, PyTorch. The table answers unknown
keys in error messages. It gives no key a second name.
"""

from __future__ import annotations

from typing import NamedTuple


class Synonym(NamedTuple):
    """Keys of mtkit that another word stands for.

    Attributes:
        targets: full paths; several where one word sets several keys, or where the path depends on the kind.
        note: difference in units or meaning; empty if there is none.
    """

    targets: tuple[str, ...]
    note: str


_PEAK = "the peak, after warm-up"
_BATCH = "sentences × longest side of a micro-batch, padding included"
_WARMUP = "in updates"
_TIED = "all: source, target and output embeddings; target: the last two; none"
_LENGTH = "factor · source length + offset, in tokens"
_LAYERS = "encoder and decoder have a key each"

# (words, targets, note); a word with dots is a full path, which is looked up before its last component
_TABLE = (
    # sections
    ("data dataset", "corpus", ""),
    ("testing decoding inference generation translation", "search", ""),
    ("src_vocab tgt_vocab tokenizer.max_size", "tokenizer.vocab_size", "the vocabulary is learned from the corpus"),
    ("encoder decoder", "model", "their keys stand directly in model, such as model.encoder_layers"),
    # corpus
    ("data_dir data_path data_root data_folder folder dir", "corpus.root", ""),
    ("data_weights data_weighting sampling_weights upsample_primary sampling_weight corpus.weight corpus.weights",
     "corpus.train", "weight: W in an item of the list"),
    ("corpus.src_prefix corpus.source_prefix", "corpus.train", "prefix: TEXT or tag: NAME in an item of the list"),
    ("languages langs language_pair lang_pair lang_pairs", "corpus.src_lang corpus.tgt_lang", ""),
    ("language_tag", "corpus.language_tokens", "or tag: NAME in an item of corpus.train"),
    ("source_lang source_language src_language", "corpus.src_lang", ""),
    ("target_lang target_language tgt_language trg_lang", "corpus.tgt_lang", ""),
    ("train_sets trainpref train_data train_src train_tgt path_src path_tgt prepared_data src_file tgt_file "
     "source_file target_file src_path tgt_path train_path train_file training_pairs train_pairs parallel_data "
     "bitext corpus.src corpus.source corpus.tgt corpus.target input_file input_files corpus.reference train_text "
     "src_sentences tgt_sentences dataset_name dataset_config_name hf_dataset source_column target_column "
     "text_column corpus.files corpus.tsv corpus.transforms", "corpus.train",
     "a list of {src: FILE, tgt: FILE}, or {pairs: FILE} with both sides"),
    ("dev validation_data valid_sets validpref valid_data validation_source "
     "validation_target valid_src valid_tgt holdout held_out dev_src dev_tgt valid_file dev_file", "corpus.valid",
     "{src: FILE, tgt: FILE}"),
    ("testpref test_data test_sets", "corpus.test", "{NAME: {src: FILE, tgt: FILE}}"),
    ("backtranslation back_translation backtranslations synthetic monolingual mono", "corpus.train",
     "{src: FILE, tgt: FILE} of a text and its translation, or {text: FILE}"),
    ("max_sent_length max_seq_len max_seq_length max_source_positions max_target_positions src_seq_length "
     "max_position_embeddings block_size max_source_length max_target_length max_words corpus.max_tokens "
     "truncate truncation max_sentence_tokens max_line_length filtertoolong "
     "skip_invalid_size_inputs_valid_test",
     "corpus.cleaning.max_length", "in tokens"),
    ("filter_max_ratio length_ratio corpus.ratio", "corpus.cleaning.max_ratio", ""),
    # tokenizer
    ("bpe_size bpe_operations num_operations num_merges bpe_num_merges num_symbols vocabulary_size voc_limit "
     "n_tokens num_tokens bpe_vocab tokenizer.size",
     "tokenizer.vocab_size",
     "tokens, reserved ones included, not merges"),
    ("spm_model sp_model bpe_codes_file vocab_file codes codes_file merges_file tokenizer_file spm_file bpe_codes "
     "vocab_path subword_model src_subword_model tgt_subword_model voc_file srcdict tgtdict", "tokenizer.model",
     "an existing tokenizer"),
    ("src_vocab_size tgt_vocab_size dim_vocabs nwordssrc nwordstgt", "tokenizer.vocab_size",
     "of the shared vocabulary, or of each with shared: false"),
    ("tokenizer.joint joint_bpe share_vocab shared_vocab joined_dictionary joint_vocab share_vocabulary "
     "shared_bpe separate_vocabs separate_vocab separate_vocabularies "
     "shared_source_target share_tokenizer",
     "tokenizer.shared", ""),
    ("tokenizer.type tokenizer.kind tokenizer.algorithm tokenizer.method tokenization subword level bpe_type "
     "tokenizer_type subword_type",
     "tokenizer.model_type", "bpe, wordpiece, ..."),
    ("vocab_size_multiple padding_factor make_vocab_size_divisible_by pad_vocab_to_multiple_of pad_to_multiple",
     "tokenizer.pad_to_multiple_of", ""),
    ("src_words_min_frequency voc_min_freq word_min_count min_freq thresholdsrc thresholdtgt vocab_threshold",
     "tokenizer.min_frequency", ""),
    ("tokenizer.dropout bpe_dropout spm_alpha sampling tokenizer.nbest_size subword_alpha subword_nbest sampling_alpha",
     "tokenizer.subword_regularization",
     "BPE-dropout's p, or unigram's alpha"),
    ("augmentation data_augmentation case_augmentation augment",
     "tokenizer.robustness", "lower case, title case, ..."),
    ("do_lower_case lower uncased case_insensitive ignore_case case_sensitive cased",
     "tokenizer.lowercase evaluation.lowercase", ""),
    ("truecase truecaser", "tokenizer.robustness", "capitals are learned; there is no truecaser"),
    ("normalization nfkc nfc nfd nfkd", "tokenizer.normalisation", ""),
    # model
    ("type arch architecture model_type encoder_type decoder_type model_task", "model.kind", ""),
    ("units num_units n_units nhid n_hid n_embd hidden_dim hidden_size dim_model model_dim rnn_size dim_rnn",
     "model.d_model", ""),
    ("embedding_dim encoder_embed_dim decoder_embed_dim word_vec_size emb_size embed_dim dim_emb d_embedding "
     "enc_emb_dim dec_emb_dim embedding_size emb_dim enc_dim dec_dim decoder_input_dim decoder_output_dim",
     "model.d_embed model.d_model", ""),
    ("ff_size ffn_hidden ffn_dim feed_forward_size feed_forward_num_hidden transformer_ff intermediate_size "
     "dim_feedforward inner_dim d_inner d_inner_hid encoder_ffn_embed_dim decoder_ffn_embed_dim "
     "transformer_dim_ffn", "model.d_ff", ""),
    ("filter_size", "model.d_ff", ""),
    ("transformer_feed_forward_num_hidden ffn_num_outputs", "model.d_ff model.d_model", ""),
    ("init_hidden decoder_init dec_init", "model.bridge_source", ""),
    ("num_layers", "model.encoder_layers model.decoder_layers", _LAYERS),
    ("n n_layers layers num_hidden_layers", "model.encoder_layers model.decoder_layers model.num_layers", _LAYERS),
    ("enc_layers num_encoder_layers enc_depth", "model.encoder_layers model.num_layers", ""),
    ("dec_layers num_decoder_layers dec_depth", "model.decoder_layers model.num_layers", ""),
    ("h heads nhead num_attention_heads attention_heads transformer_heads n_heads n_head", "model.num_heads", ""),
    ("encoder_attention_heads decoder_attention_heads encoder_heads decoder_heads", "model.num_heads",
     "the same for encoder and decoder"),
    ("num_key_value_heads n_kv_heads num_kv multiquery multi_query mqa gqa grouped_query", "model.num_kv_heads", ""),
    ("attention_head_size head_size size_per_head d_kv dim_head d_head d_k query_size key_size", "model.head_dim", ""),
    ("d_v v_head_dim value_dim", "model.value_head_dim", ""),
    ("dropout_src dropout_trg classifier_dropout embed_dropout embedding_dropout lstm_dropout rnn_dropout gru_dropout "
     "dropout_rate hidden_dropout_prob dropout_prob transformer_dropout "
     "hidden_dropout layer_prepostprocess_dropout layer_postprocess_dropout residual_dropout resid_dropout "
     "resid_pdrop", "model.dropout", ""),
    ("attn_dropout attention_probs_dropout_prob attention_dropout_prob transformer_dropout_attention",
     "model.attention_dropout", ""),
    ("relu_dropout ffn_dropout activation_fn_dropout transformer_dropout_ffn", "model.activation_dropout", ""),
    ("activation_fn hidden_act activation_function ff_activation activation_type nonlinearity",
     "model.feed_forward.activation", ""),
    ("share_decoder_embeddings share_decoder_input_output_embed weight_tying tied_embeddings_all untied "
     "share_all_embeddings share_embeddings tie_embeddings tie_word_embeddings tied_softmax",
     "model.tied_embeddings", _TIED),
    ("transformer_preprocess transformer_postprocess", "model.residual.kind",
     "of Marian: n is pre_norm, dan post_norm"),
    ("transformer_tied_layers tie_ffn", "model.encoder_sharing model.decoder_sharing", "layers that are one"),
    ("layer_norm normalize_before encoder_normalize_before decoder_normalize_before layer_norm_type norm_type",
     "model.residual.kind", "pre_norm or post_norm"),
    ("norm", "model.residual", "kind: pre_norm, post_norm, sandwich or deepnorm; the type of norm is residual.norm"),
    ("norm_layer normalization_layer rms_norm rmsnorm use_rmsnorm", "model.residual.norm", "kind: layer or rms"),
    ("position_encoding pos_enc positional_encoding position_embedding_type pos_type position_encoding_type",
     "model.encoder_positions model.decoder_positions", ""),
    ("max_relative_positions max_relative_position", "model.encoder_positions.max_distance", "kind: shaw"),
    ("rope_theta rotary_base", "model.decoder_positions.base", "kind: rope"),
    ("query_key_norm qk_layernorm", "model.qk_norm", ""),
    ("layer_drop encoder_layerdrop decoder_layerdrop stochastic_depth drop_path", "model.layerdrop", ""),
    ("sublayers parallel_residual parallel_attention parallel_block", "model.parallel_sublayers", ""),
    ("bidirectional brnn bi_lstm bilstm bigru birnn",
     "model.bidirectional_layers", "number of bidirectional layers, from the lowest"),
    ("rnn_type rnn_cell enc_cell dec_cell cell_type", "model.cell model.encoder_cell model.decoder_cell", ""),
    ("input_feed input_feeding", "model.decoder", "decoder: input_feeding"),
    ("transformer_decoder_autoreg", "model.decoder_attention", ""),
    ("model.attention", "model.encoder_attention model.decoder_attention", ""),
    ("global_attention attention_type", "model.attention", ""),
    ("alignment_dim align_dim", "model.d_attention", ""),
    ("local_attention_window attention_window window_size",
     "model.encoder_attention.width model.decoder_attention.width", "kind: window"),
    ("joint", "model.connection", ""),
    ("dropout_masks variational_dropout", "model.dropout_kind", "per_step or variational"),
    ("num_local_experts n_experts moe_experts num_moe_experts", "model.feed_forward.num_experts", "kind: moe"),
    ("experts_per_token num_experts_per_tok moe_top_k", "model.feed_forward.routing", "switch or top2; kind: moe"),
    ("teacher_model teacher_path kd_alpha knowledge_distillation", "training.objective.teacher",
     "kind: distillation"),
    # training: length and schedule
    ("steps_per_epoch epoch_size checkpoints_per_epoch", "training.max_updates training.validate_every",
     "an epoch is the corpus, read once"),
    ("epochs max_epoch num_epochs num_train_epochs after_epochs max_num_epochs", "training.max_epochs", ""),
    ("input_sentence_size", "tokenizer.max_lines", ""),
    ("max_pairs num_pairs max_sentence_pairs lines num_lines num_examples max_examples max_train_samples "
     "random_train_subset sample_train_subset",
     "corpus.train",
     "limit: N in an item of the list"),
    ("after", "training.max_updates training.max_epochs", ""),
    ("iterations num_iterations max_steps train_steps total_steps num_steps after_batches",
     "training.max_updates", "in updates"),
    ("optim optimizer", "training.optimiser", ""),
    ("lr lr0 eta step_size learn_rate initial_learning_rate base_lr max_lr", "training.optimiser.learning_rate", _PEAK),
    ("betas adam_betas optimizer_params", "training.optimiser.beta1 training.optimiser.beta2", ""),
    ("adam_beta1 betas1 adam_b1 b1", "training.optimiser.beta1", ""),
    ("adam_beta2 betas2 adam_b2 b2", "training.optimiser.beta2", ""),
    ("epsilon adam_eps adam_epsilon", "training.optimiser.eps", ""),
    ("wd l2 l2_penalty decay_weight", "training.optimiser.weight_decay", "of adamw, lion, muon and adafactor"),
    ("training.factor", "training.optimiser.learning_rate training.schedule", "the peak, after warm-up"),
    ("scheduler scheduling lr_scheduler lr_scheduler_type decay_method learning_rate_scheduler_type",
     "training.schedule.kind", ""),
    ("warmup_steps warmup_updates learning_rate_warmup lr_warmup num_warmup_steps noam_warmup warmup_epochs "
     "warmup_ratio warmup_fraction", "training.schedule.warmup", _WARMUP),
    ("start_decay_steps decay_steps learning_rate_decay lr_decay lr_decay_steps decay_rate lr_gamma gamma",
     "training.schedule",
     "kinds that decay: cosine, linear, inverse_sqrt, plateau"),
    ("min_lr learning_rate_min lr_min stop_min_lr end_learning_rate", "training.schedule.final",
     "as a fraction of the learning rate"),
    ("learning_rate_reduce_num_not_improved plateau_patience", "training.schedule.patience", "kind: plateau"),
    ("decrease_factor lr_shrink learning_rate_reduce_factor lr_decay_factor", "training.schedule.shrink",
     "kind: plateau"),
    # training: batches and memory
    ("max_tokens batch_size tokens_per_batch mini_batch_words per_device_train_batch_size mini_batch "
     "max_sentences batch_type training.batch training.tokens batch_sentences workspace mini_batch_fit",
     "training.batch_tokens", _BATCH),
    ("update_interval update_freq accum_count gradient_accumulation_steps batch_multiplier optimizer_delay "
     "accumulation_steps",
     "training.micro_batches", "per update, over all processes"),
    ("fp16 bf16 amp half use_fp16 mixed_precision use_amp dtype compute_dtype bits", "training.precision",
     "auto, float32, bf16 or fp16"),
    ("gradient_checkpointing checkpoint_activations", "training.activation_checkpointing", ""),
    ("torch_compile compile_model", "training.compile", ""),
    ("fsdp ddp_backend distributed_strategy", "training.parallel", "ddp or fsdp"),
    ("random_seed manual_seed seeds random_state", "training.seed", ""),
    # training: loss and gradient
    ("smoothing label_smoothing_factor smoothing_factor label_smooth", "training.label_smoothing", ""),
    ("criterion loss loss_type cost_type", "training.objective.kind", ""),
    ("guided_alignment lambda_align alignment_lambda", "training.objective.weight", "kind: guided_alignment"),
    ("clip_grad_norm max_grad_norm gradient_clipping clip_gradients gradient_clipping_threshold grad_clip",
     "training.clip_norm", "norm of the whole gradient"),
    ("clip max_norm gradient_clip_val clip_grad_val clip_value",
     "training.clip_norm", "norm of the whole gradient, not a value"),
    ("scheduled_sampling_decay teacher_forcing sampling_prob", "training.decoder_input.teacher_forcing_ratio", ""),
    # training: validation and checkpoints
    ("eval_steps valid_steps validation_freq validate_interval_updates validate_interval valid_freq eval_interval "
     "test_every eval_strategy evaluation_strategy", "training.validate_every", "in updates"),
    ("save_steps save_checkpoint_steps save_interval_updates save_freq checkpoint_interval checkpoint_freq "
     "save_strategy", "training.checkpoint_every", "in updates"),
    ("plot_every print_every lr_report logging_freq log_interval report_every disp_freq logging_steps verbose",
     "training.log_every", "in updates"),
    ("early_stopping early_stopping_patience max_num_checkpoint_not_improved stop_patience "
     "max_updates_without_improvement no_improvement_limit max_bad_validations",
     "training.patience", "in validations without improvement"),
    ("early_stopping_metric early_stopping_on eval_metric best_checkpoint_metric valid_metrics "
     "metric_for_best_model optimized_metric predict_with_generate",
     "training.validation.metric", "nll, bleu or command"),
    ("valid_script_path valid_script valid_script_args valid_command", "training.validation.command", ""),
    ("decode_and_evaluate eval_samples", "training.validation.sentences", "that are translated"),
    ("improvement_threshold checkpoint_improvement_threshold min_delta", "training.patience",
     "any improvement counts"),
    ("keep_best_ckpts keep_best_checkpoints save_best save_best_only", "training.keep.best", ""),
    ("load_best_model_at_end", "training.checkpoint_average training.keep.best", "model/ is the mean, or the best"),
    ("no_epoch_checkpoints no_last_checkpoints no_save", "training.keep", "last, best and every"),
    ("keep_last_ckpts keep_checkpoint keep_last_epochs save_total_limit max_checkpoints max_to_keep",
     "training.keep.last", ""),
    ("average_checkpoints last_checkpoints num_checkpoints avg_checkpoints average swa",
     "training.checkpoint_average", ""),
    ("moving_average exponential_smoothing average_decay ema_decay", "training.ema.decay", ""),
    ("pretrained load_model train_from restore_file finetune_from_model pretrained_model init_model",
     "training.init_from", ""),
    ("pretrained_embeddings pre_word_vecs embeddings_file load_path", "training.word_vectors", ""),
    ("freeze_encoder freeze_embeddings fixed_param_names", "training.freeze", "a list of parts, such as [encoder]"),
    ("tensorboard_logdir tensorboard tensorboard_dir use_tensorboard wandb_project wandb use_wandb report_to loggers",
     "training.trackers", "such as [tensorboard]"),
    ("log_parts", "training.log_gradient_norms", ""),
    ("time_limit max_time stop_time_hours max_seconds", "training.max_hours", "in hours"),
    # search
    ("beam beam_width num_beams beams search.width search.size", "search.beam_size", ""),
    ("nbest num_return_sequences n_best_size num_hypotheses n_hyps num_candidates", "search.n_best", ""),
    ("lenpen length_penalty_alpha beam_alpha alpha len_penalty length_norm normalize "
     "normalization_alpha search.penalty",
     "search.length_penalty", "a number divides by length^number; {kind: gnmt, alpha: A} is Wu et al.'s"),
    ("max_len_a max_length_factor max_output_ratio max_length_ratio", "search.max_length.factor", _LENGTH),
    ("max_len_b", "search.max_length.offset", _LENGTH),
    ("max_output_length max_new_tokens max_decoding_length max_decode_length search.max_target_length "
     "search.max_tokens", "search.max_length.max", "in tokens"),
    ("min_len_a", "search.min_length.factor", _LENGTH),
    ("min_len min_len_b min_output_length min_decoding_length min_new_tokens min_decode_length",
     "search.min_length.offset", _LENGTH),
    ("no_repeat_ngram_size block_ngram_repeat ngram_block", "search.no_repeat_ngram", ""),
    ("repeat_penalty", "search.repetition_penalty", ""),
    ("beta coverage coverage_attn coverage_attention use_coverage", "search.coverage_penalty", ""),
    ("greedy greedy_search greedy_decoding", "search.beam_size", "1 is greedy search"),
    ("do_sample sample sampling_strategy decoding_strategy", "search.method.kind", "kind: sampling"),
    ("topk k random_sampling_topk sampling_topk", "search.method.top_k", "kind: sampling"),
    ("topp p nucleus_size sampling_topp", "search.method.top_p", "kind: sampling"),
    ("random_sampling_temp sample_temperature search.sampling_temperature",
     "search.method.temperature", "kind: sampling"),
    ("sampling_method", "corpus.sampling_temperature search.method.kind", "of corpora, or of translations"),
    ("mbr minimum_bayes_risk", "search.rerank", ""),
    ("samples", "search.method.num_samples training.objective.num_samples", "kind: sampling, or minimum_risk"),
    ("num_beam_groups beam_groups diverse_beam_groups", "search.method.groups", "kind: diverse"),
    ("diversity_penalty diversity_rate strength", "search.method.diversity_strength", "kind: diverse"),
    ("unk_penalty replace_unk", "search.allow_unknown", "false: <unk> is never generated"),
    # evaluation
    ("chrf_pp chrfpp eval_metrics scorers evaluation.bleu evaluation.chrf evaluation.ter compute_bleu "
     "evaluation.sacrebleu "
     "evaluation.scores",
     "evaluation.metrics", "such as [bleu, chrf]"),
    ("coverage spm_coverage", "tokenizer.character_coverage", ""),
    ("sacrebleu_cfg eval_bleu_detok tokenizer_name bleu_tokenizer", "evaluation.tokenize", "of sacreBLEU"),
)  # fmt: skip

KEY_SYNONYMS = {
    word: Synonym(tuple(targets.split()), note) for words, targets, note in _TABLE for word in words.split()
}

# beginnings and ends of names of others without which a name is looked up too
AFFIXES = (
    "use enable do with no disable skip transformer",
    "type name kwargs args config impl mode path file value gpu device per",
)

NOISE = frozenset(("use", "the", "enable"))  # parts of names that change nothing

# parts of keys, and the part that they are compared as
_PARTS = (
    ("len", "length"),
    ("tie tying share sharing shared", "tied"),
    ("snapshot", "checkpoint"),
    ("src", "source"),
    ("tgt trg", "target"),
    ("d size dimension unit width feature", "dim"),
    ("hid", "hidden"),
    ("emb embd embed", "embedding"),
    ("enc", "encoder"),
    ("dec", "decoder"),
    ("attn", "attention"),
    ("ffn pf feedforward fc mlp", "ff"),
    ("pos pe positional", "position"),
    ("normalize normalise normalization normed layernorm", "norm"),
    ("first", "before"),
    ("grad", "gradient"),
    ("clipping", "clip"),
    ("acc accum accumulation accumulated", "accumulate"),
    ("prob probability proba ratio p", "rate"),
    ("scheduler scheduled scheduling", "schedule"),
    ("epsilon", "eps"),
    ("scale scaling", "scaled"),
    ("lower lowercased uncased", "lowercase"),
    ("minimum", "min"),
    ("maximum total", "max"),
    ("n nb number count", "num"),
    ("freq frequent", "frequency"),
    ("vocabulary", "vocab"),
    ("strategy decoding", "method"),
    ("kind algorithm", "type"),
    ("optim optimizer opt", "optimiser"),
    ("step iter iteration", "update"),
    ("ckpt save saving", "checkpoint"),
    ("valid val eval evaluation dev validate", "validation"),
    ("logging print report disp display", "log"),
    ("interval", "every"),
    ("depth block", "layer"),
    ("warm", "warmup"),
    ("temp", "temperature"),
    ("drop pdrop", "dropout"),
    ("rep repeat", "repetition"),
    ("distil distill distilled", "distillation"),
    ("sent", "sentence"),
    ("r", "rank"),
    ("checkpointing", "checkpointing"),  # of activations
    ("tok tokenizer tokeniser tokenization tokenisation tokenise", "tokenize"),
)

PARTS = {part: main for parts, main in _PARTS for part in parts.split()}
ABBREVIATIONS = {
    "maxlen": "max_length",
    "minlen": "min_length",
    "tf": "teacher_forcing",
    "ls": "label_smoothing",
    "lr": "learning_rate",
    "wd": "weight_decay",
    "bs": "batch_size",
    "relpos": "relative_positions",
    "ss": "scheduled_sampling",
    "voc": "vocab",
    "kd": "distillation",
}

# words of others that no key answers: (words, answer); a word with dots counts in its section alone. It counts if an
# unknown word has all its parts, except one part that keys have: such a word is to be the same. * is the list of kinds
_OF_TRAINING = (
    # corpus and tokenizer
    ("shuffle curriculum", "the order is random in each epoch, by training.seed"),
    ("sort_batches group_by_length bucket_size bucket_width bucketing pool_factor batch_by_length pack_sequences "
     "maxi_batch left_pad",
     "batches have sentences of similar length anyway; training.batch_tokens is their size"),
    ("remove_duplicates deduplicate dedup filter_language langid langid_filter corpus.min_length corpus.min_len "
     "min_words "
     "min_src_len skip_empty empty_lines invalid_lines",
     "corpus.cleaning has limits of length; mtkit clean SRC TGT removes what is doubled or wrong"),
    ("factors source_factors target_factors feats lemma",
     "mtkit has no factors: a line is its text and one tag, prefix or weight"),
    ("pretokenizer pyonmttok onmttok_kwargs joiner moses spacy truecaser subword_nmt nltk",
     "text needs no other tokenizer before: tokenizer.model_type learns from it as it is"),
    ("hard_vocab_limit dummy_prefix remove_extra_whitespaces split_by_unicode split_by_whitespace unk_surface "
     "user_defined_symbols seed_sentencepiece "
     "shuffle_input_sentence extremely_large_corpus control_symbols special_symbols continuing_subword_prefix "
     "end_of_word_suffix max_sentencepiece_length self_test",
     "spaces and the reserved tokens are fixed; the keys of tokenizer are what else can be chosen"),
    ("pad_token unk_token bos_token eos_token special_tokens add_eos add_bos append_eos unk_id pad_id bos_id eos_id "
     "pad_token_id eos_token_id bos_token_id pad_idx start_token",
     "reserved tokens are fixed"),
    ("all_caps title_case", "tokenizer.robustness has lower case, title case, capitals and errors"),
    # model
    ("flash_attention attn_implementation use_flash sdpa flash liger cudnn tf32 benchmark jit fused triton xformers "
     "empty_cache", "kernels are chosen by the machine"),
    ("weight_init init_std param_init param_init_glorot initializer init_method init_scale init_gain xavier kaiming",
     "each layer has its own initialisation"),
    ("copy_attn copy_mechanism pointer copy_attn_type", "mtkit has no copying attention; tokenizer.copy_tokens copies "
     "names, numbers and addresses"),
    ("cnn conv convolution kernel_size kernel_width dilation lightconv dynamicconv highway char_embedder mamba",
     "mtkit has no convolutions and state spaces; model.kind is *"),
    ("adaptive_softmax adaptive_input softmax_cutoff sampled_softmax generator_function",
     "all tokens are scored by one softmax"),
    ("lhuc layer_scale quant_noise vocab_selection nvs shortlist universal adaptive_span no_cross_attention",
     "mtkit has none of the kind"),
    ("layer_norm_top postprocess_top final_norm", "model.residual.kind: pre_norm has a last norm, post_norm has none"),
    # training
    ("min_loss_scale loss_scale loss_scaling cost_scaling gradient_scaling grad_scaler fp16_init_scale",
     "training.precision: fp16 scales the loss by itself"),
    ("checkpoint_dir save_dir output_dir model_dir model_path save_model exp_dir work_dir",
     "the option --run-dir names the folder of a training"),
    ("resume resume_from_checkpoint auto_resume overwrite restart reload restore continue no_cache",
     "the same command continues a training, and --fresh starts over"),
    ("reset_optimizer reset_dataloader reset_lr_scheduler reset_optim reset_iter reset_best reset_meters",
     "training.init_from begins with the weights alone, and --fresh starts over"),
    ("push_to_hub hub hub_model_id hub_token", "mtkit push uploads a finished model"),
    ("num_workers dataloader pin_memory non_blocking prefetch streaming sync_sgd shard_size num_shards sqlite "
     "in_ram preprocessing_num_workers dataset_impl cache keep_in_memory overwrite_cache unused_columns all_gather",
     "the binary corpus is read from disk by one process; nothing of the kind is to be set"),
    ("tpu xla horovod deepspeed zero_stage zero_sharding sharding apex accelerate accelerator ddp_comm ddp_bucket "
     "unused_parameters bucket_cap params_to_wrap pipeline_parallel tensor_parallel mps",
     "mtkit trains on CPUs and on NVIDIA GPUs by torch: training.parallel is ddp or fsdp"),
    ("qlora 4bit 8bit bnb bitsandbytes nf4 qat quantize quantization fp8 optimize gemm_type int8shift",
     "trainings are in training.precision; mtkit compress MODEL --to int8 quantises a finished model"),
    ("target_modules lora_dropout", "training.adapter: {kind: lora, rank: R, alpha: A, layers: all}"),
    ("neftune gradient_noise embedding_noise mixup cutmix cutoff",
     "mtkit has no such noise; dropout and training.decoder_input have others"),
    ("adagrad rmsprop lamb amsgrad nesterov lookahead sam polyak shampoo sophia adamax nadam radam",
     "training.optimiser.kind is *; training.ema averages"),
    ("cyclic one_cycle num_cycles restarts cooldown lr_period t_max polynomial_power", "training.schedule.kind is *"),
    ("layerwise discriminative_lr lr_mult encoder_lr decoder_lr gradual_unfreezing unfreeze",
     "all weights have one learning rate; training.freeze keeps parts as they are"),
    ("ctc bow_task length_task multitask focal contrastive_loss triplet coverage_loss",
     "training.objective.kind is *"),
    ("min_updates min_epochs min_steps min_num_epochs",
     "training.max_epochs and training.patience end a training; there is no minimum"),
    ("dropout_steps batch_warmup batch_size_schedule", "dropout and batches are the same in all updates"),
    ("profile profiler wall_clock_breakdown",
     "log.jsonl has the speed of training, and mtkit bench measures that of translation"),
    ("report_accuracy train_accuracy top1",
     "the log has loss and perplexity; training.validation.metric: bleu translates"),
    ("optimizer_state save_optimizer save_optimizer_state no_save_optimizer_state",
     "a checkpoint has the optimiser's state, and model/ the weights alone"),
    ("user_dir plugin plugins env horizon", "a new kind is a class in mtkit itself (docs/architecture.md)"),
    ("device", "the option --device chooses it: mtkit train RECIPE --device cpu"),
    ("gpu cuda", "the option --device chooses it: mtkit train RECIPE --device cuda"),
    ("gpus n_gpu n_gpus num_gpus world_size gpu_ranks multi_gpu",
     "torchrun starts a process for each GPU; training.parallel is ddp or fsdp"),
)  # fmt: skip
_OF_MODELS = (
    ("output_attentions return_attention print_alignment return_alignments",
     "the option --alignments of mtkit translate writes them"),
    ("search.max_time", "a search has no limit of time; search.max_length and search.patience end it"),
    ("output_scores return_prob return_scores return_log_prob with_scores",
     "the option --jsonl of mtkit translate writes scores, and mtkit score those of given translations"),
    ("lm_weight lm_path lm", "the option --lm of mtkit translate takes a language model"),
    ("ensemble models", "the option --ensemble of mtkit translate takes further models"),
    ("use_cache", "keys and values are always kept"),
    ("forced_bos_token_id forced_bos_token", "the option --tgt-lang chooses the language"),
    ("phrase_table replacement_table", "the option --glossary of mtkit translate takes terms"),
    ("bad_words force_words suppress_tokens banned_words lexically_constrained stop_strings",
     "the option --constraints of mtkit translate takes words to include and to exclude"),
    ("search.min_p search.typical_p typical eta_cutoff tfs mirostat",
     "search.method: {kind: sampling} has temperature, top_k, top_p "
     "and epsilon"),
    ("contrastive guidance penalty_alpha dola watermarking watermark assistant speculative prompt_lookup iterative "
     "refinement", "search.method.kind is *"),
    ("match_source", "search.max_length: {factor: 1.0, offset: 0} and search.min_length bound it by the source"),
    ("unnormalized unnormalised", "search.length_penalty: 0 ranks by the sum of log-probabilities"),
    ("retain_dropout mc_dropout", "dropout is off in translation; --sample of mtkit translate varies it"),
    ("beam_search_stop stop_criterion", "search.early_stopping or search.patience ends a search"),
    ("smooth_method smooth_value smooth_exp effective_order evaluation.beta evaluation.char_order "
     "evaluation.whitespace "
     "ngram_order max_order evaluation.normalized asian no_punct signature",
     "metrics are sacreBLEU's with its own settings, of which tokenize and lowercase can be chosen"),
    ("spbleu", "evaluation.tokenize: flores200 makes BLEU spBLEU"),
    ("comet bleurt metricx rouge meteor wer cer bertscore yisi nist",
     "evaluation.metrics are bleu, chrf and ter; training.validation.command runs another program"),
)  # fmt: skip

OTHER_ANSWERS = {word: answer for words, answer in (*_OF_TRAINING, *_OF_MODELS) for word in words.split()}
ANSWERS_OF_MODELS = frozenset(word for words, _ in _OF_MODELS for word in words.split())

# (words, kinds or choices that they may stand for); the first that the key takes is suggested
_KINDS = (
    ("lstm gru seq2seq recurrent", "rnn"),
    ("bahdanau luong", "attention_rnn"),
    ("gpt prefix_lm", "decoder_only"),
    ("experts mixture_of_experts switch_transformer", "moe"),
    ("linear_attention favor", "performer"),
    ("glu", "gated"),
    ("swish", "silu"),
    ("rotary", "rope"),
    ("relative", "shaw"),
    ("sin sine", "sinusoidal"),
    ("pre prenorm", "pre_norm"),
    ("post postnorm", "post_norm"),
    ("deep", "deepnorm"),
    ("rmsnorm", "rms"),
    ("layernorm", "layer"),
    ("normed_lstm", "layer_norm_lstm"),
    ("normed_gru", "layer_norm_gru"),
    ("fresh", "per_step"),
    ("masks mask", "mlm"),
    ("spans t5", "span_corruption"),
    ("source_and_target", "joint_lm"),
    ("masked_language_model mlm", "masked_lm"),
    ("crossentropy mle xent", "cross_entropy"),
    ("mrt", "minimum_risk"),
    ("rdrop", "r_drop"),
    ("label_smoothed_cross_entropy_with_alignment", "guided_alignment"),
    ("rsqrt invsqrt", "inverse_sqrt"),
    ("polynomial polynomial_decay", "linear"),
    ("reduce_lr_on_plateau", "plateau"),
    ("wsd", "warmup_stable_decay"),
    ("greedy", "beam argmax"),
    ("random", "sampling"),
    ("wu", "gnmt"),
    ("fp32 float", "float32"),
    ("bfloat16", "bf16"),
    ("float16 half", "fp16"),
    ("perplexity ppl loss", "nll"),
)

# words for a kind with a value of its keys: what to write, at the key where it is written
WRITTEN_KINDS = {
    "noam": ("training.schedule", "{kind: inverse_sqrt, d_model: D} with D of model.d_model and learning_rate 1.0"),
    "swiglu": ("model.feed_forward", "{kind: gated, activation: silu}"),
    "geglu": ("model.feed_forward", "{kind: gated, activation: gelu}"),
    "reglu": ("model.feed_forward", "{kind: gated, activation: relu}"),
    "gru": ("model", "{kind: rnn, cell: gru}"),
    "top_k": ("search.method", "{kind: sampling, top_k: K}"),
    "top_p": ("search.method", "{kind: sampling, top_p: P}"),
    "nucleus": ("search.method", "{kind: sampling, top_p: P}"),
    "beam_search": ("search.method", "beam"),
    "label_smoothing": ("training.objective", "cross_entropy, with training.label_smoothing"),
    "label_smoothed_cross_entropy": ("training.objective", "cross_entropy, with training.label_smoothing"),
}

KIND_SYNONYMS = {word: tuple(kinds.split()) for words, kinds in _KINDS for word in words.split()}
