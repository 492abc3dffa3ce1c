"""What the page may ask: read as it is meant, or refused in a sentence."""

import pytest

from care.explore import Question, read_question
from care.explore.question import read_model


def test_a_question_is_read():
    body = b'{"image": 3, "changes": {"hue": -0.5, "zoom": 1, "brightness": 1.5, "x": 0, "flip": 1}, "models": [2, 0]}'
    changes = {"hue": -0.5, "brightness": 1.5, "flip": 1.0}
    assert read_question(body, 4, {0, 1, 2}) == Question(3, False, changes, (2, 0))
    assert read_question(b'{"photo": 7, "changes": {}, "models": []}', 4, {0}) == Question(7, True, {}, ())


RUBBISH = {
    b"": "not JSON",
    b"\xff": "not JSON",
    b"{": "not JSON",
    b"[" * 4000: "not JSON",
    b"[1, 2]": "not like",
    b"null": "not like",
    b'{"image": 1}': "not like",
    b'{"image": 1, "changes": {}}': "not like",
    b'{"image": 1, "photo": 1, "changes": {}, "models": [0]}': "not like",
    b'{"image": 1, "changes": {}, "models": [0], "more": 1}': "not like",
    b'{"image": 1, "changes": {}, "models": 0}': "numbers of different models",
    b'{"image": 1, "changes": {}, "models": [2]}': "numbers of different models",
    b'{"image": 1, "changes": {}, "models": [0, 0]}': "numbers of different models",
    b'{"image": 1, "changes": {}, "models": [[]]}': "numbers of different models",
    b'{"photo": -1, "changes": {}, "models": [0]}': "whole number",
}
NUMBERS = (b"true", b"1.0", b"-1", b"4", b'"1"')
CHANGED = {
    b"[]": "one of hue, brightness",
    b'{"huge": 1}': "one of hue, brightness",
    b'{"__class__": 1}': "one of hue, brightness",
    b'{"hue": "0.1"}': "hue must be a number from -0.5 to 0.5",
    b'{"hue": true}': "hue must be a number",
    b'{"hue": NaN}': "hue must be a number",
    b'{"hue": Infinity}': "hue must be a number",
    b'{"hue": 0.51}': "hue must be a number",
    b'{"zoom": 1e400}': "zoom must be a number",
    b'{"zoom": ' + b"9" * 3000 + b"}": "zoom must be a number",
    b'{"zoom": 0}': "zoom must be a number",
    b'{"flip": 0.5}': "flip must be 0 or 1",
    b'{"blur": -1}': "blur must be a number from 0 to 3",
}
RUBBISH |= {b'{"image": %b, "changes": {}, "models": [0]}' % number: "whole number from 0 to 3" for number in NUMBERS}
RUBBISH |= {b'{"image": 1, "changes": %b, "models": [0]}' % change: words for change, words in CHANGED.items()}


@pytest.mark.parametrize("body", RUBBISH, ids=range(len(RUBBISH)))
def test_rubbish_is_refused_with_a_sentence(body):
    with pytest.raises(ValueError, match=RUBBISH[body]):
        read_question(body, 4, {0, 1})


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"model": 2}', b'{"model": true}', b'{"model": 0, "more": 1}'])
def test_a_model_is_one_that_there_is(body):
    assert read_model(b'{"model": 1}', 2) == 1
    with pytest.raises(ValueError, match="model"):
        read_model(body, 2)
