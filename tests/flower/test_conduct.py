from dataclasses import asdict

from pmafl.flower.conduct import FIRST_ROUNDS_ASIDE, MOST_ROUNDS_ASIDE, REASON_LENGTH, Conduct, Offence


def test_a_node_is_set_aside_for_the_rounds_after_its_offence():
    conduct = Conduct()
    conduct.note(7, 2, 10, "train", "NaN")
    until = 11 + FIRST_ROUNDS_ASIDE
    assert [7 in conduct.aside(number) for number in (9, 10, until - 1, until)] == [False, True, True, False]


def test_repetition_doubles_the_time_up_to_a_limit():
    conduct, number, lengths = Conduct(), 0, []
    for _ in range(12):
        until = conduct.note(7, 2, number, "train", "NaN").until
        lengths.append(until - number - 1)
        number = until
    assert lengths[:3] == [FIRST_ROUNDS_ASIDE, 2 * FIRST_ROUNDS_ASIDE, 4 * FIRST_ROUNDS_ASIDE]
    assert lengths[-1] == MOST_ROUNDS_ASIDE
    assert conduct.note(8, 3, number, "train", "NaN").until == number + 1 + FIRST_ROUNDS_ASIDE


def test_conduct_follows_from_the_offences_alone():
    conduct = Conduct()
    for number in (0, 5, 30):
        conduct.note(7, 2, number, "train", "x" * 1000)
    again = Conduct(
        [Offence(**asdict(offence)) for number in range(31) for offence in conduct.of_round(number)]
    )
    assert [again.aside(number) for number in range(60)] == [conduct.aside(number) for number in range(60)]
    assert again.note(7, 2, 59, "train", "NaN") == conduct.note(7, 2, 59, "train", "NaN")
    assert len(conduct.of_round(5)[0].reason) == REASON_LENGTH
