import pytest

from tabapp.headless.narration import say, sentence


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("there is no column 'x'; did you mean 'y'?", "There is no column 'x'; did you mean 'y'?"),
        ("There is no model 'a'; did you mean 'b'?.", "There is no model 'a'; did you mean 'b'?"),
        ("data.csv: is empty", "data.csv: is empty."),
        ("--kind: there is no column 'a'", "--kind: there is no column 'a'."),
        ("only 12 rows\n can be learned from", "Only 12 rows can be learned from."),
        ("it ended..", "It ended."),
    ],
)
def test_message_becomes_one_sentence(message, expected):
    assert sentence(message) == expected


def test_narration_goes_to_stderr_only(capsys):
    say("all is well")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "tabapp: All is well.\n")
