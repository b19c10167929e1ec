from mtkit.cli.entry import execute
from mtkit.training.checkpoints import checkpoint as survey
from mtkit.training.checkpoints.checkpoint import checkpoint_path, remove_checkpoint, verify_checkpoint
from tests.toy.training import toy_config, toy_train


def test_checkpoints_are_listed_and_damage_exits_65(tmp_path, capsys):
    toy_train(tmp_path, toy_config(max_updates=6, checkpoint_every=6))
    assert execute(["checkpoints", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert "\nupdate 6" in out
    assert err == ""
    (checkpoint_path(tmp_path / "checkpoints", 6) / "state.json").unlink()
    assert execute(["checkpoints", str(tmp_path)]) == 65
    out, err = capsys.readouterr()
    assert "damaged: state.json is missing" in out
    assert "1 of 1 checkpoints are damaged" in err
    assert execute(["checkpoints", str(tmp_path / "nothing")]) == 66


def test_files_that_are_no_checkpoints_are_reported_and_concurrent_removal_is_no_damage(tmp_path, capsys, monkeypatch):
    toy_train(tmp_path, toy_config(max_updates=12, checkpoint_every=4))
    folder = tmp_path / "checkpoints"
    (checkpoint_path(folder, 12) / "dangling").symlink_to(tmp_path / "nowhere")

    def verify(path):
        if path == checkpoint_path(folder, 8):
            remove_checkpoint(path)
        return verify_checkpoint(path)

    monkeypatch.setattr(survey, "verify_checkpoint", verify)
    assert execute(["checkpoints", str(tmp_path)]) == 0
    assert "update 8" not in capsys.readouterr().out
    checkpoint_path(folder, 16).write_text("no folder")
    assert execute(["checkpoints", str(tmp_path)]) == 65
    assert "manifest.json is missing" in capsys.readouterr().out


def test_watch_replays_a_finished_training(tmp_path, capsys):
    toy_train(tmp_path, toy_config(max_updates=6))
    assert execute(["watch", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "update 6 train" in err
    assert "update 6 end reason=max_updates" in err
    assert execute(["watch", str(tmp_path / "nothing")]) == 66
