from mtkit.cli.entry import execute
from mtkit.training.checkpoint import checkpoint_path
from tests.unit.training.toy_training import toy_config, toy_train


def test_checkpoints_are_listed_and_damage_exits_65(tmp_path, capsys):
    toy_train(tmp_path, toy_config(max_updates=6, checkpoint_every=6))
    assert execute(["checkpoints", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("update 6")
    assert err == ""
    (checkpoint_path(tmp_path / "checkpoints", 6) / "state.json").unlink()
    assert execute(["checkpoints", str(tmp_path)]) == 65
    out, err = capsys.readouterr()
    assert "damaged: state.json is missing" in out
    assert "1 of 1 checkpoints are damaged" in err
    assert execute(["checkpoints", str(tmp_path / "nothing")]) == 66


def test_a_finished_training_is_watched(tmp_path, capsys):
    toy_train(tmp_path, toy_config(max_updates=6))
    assert execute(["watch", str(tmp_path)]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "update 6 train" in err
    assert "update 6 end reason=max_updates" in err
    assert execute(["watch", str(tmp_path / "nothing")]) == 66
