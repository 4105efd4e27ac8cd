"""Why claims did not come out, where that was looked into."""

FEDREP = (
    "read as head 5 and then extractor 5 iterations, FedRep does twice PMA-FL's work and ends above; with "
    "equal work (5 in all) it ends below"
)
STILL_RISING = (
    "one model of all classes is not done after 100 rounds: FedAvg and Regularized FL still rise, so the "
    "size of the lead depends on the round where it is read"
)
FAR_FROM_DONE = (
    "one model of all classes is far from done after 100 rounds: FedAvg and Regularized FL still rise"
)
NEARLY_LEVEL = (
    "read as head 5 and then extractor 5 iterations, FedRep does twice PMA-FL's work and ends nearly level; "
    "only with the extractor first is the lead near the paper's size"
)
OVERFITS_LATER = (
    "FedRep with equal work trains each part less: it ends lower in accuracy, but its loss falls to the end, "
    "while PMA-FL's is lowest at rounds 60 to 70 and rises again"
)
SELDOM = (
    "with 10 of 100 devices per round a predictor has trained in every tenth round only: the lead of 50 "
    "shrinks with the rounds and is not gone after 100"
)
NEARER_ITS_END = (
    "with 50 devices both end within a tenth of a point; with 10, FedRep, which has twice the work in a "
    "round, is nearer to where both end"
)
ALONE = "two classes of a few hundred images each are told apart without help from others"
LATE = (
    "OCEAN, computing at the highest clock, schedules under a third of the samples: it learns later, not "
    "worse, so the lead shrinks with the rounds, and its size depends on the round where it is read"
)
CLOCK_SPENDS = (
    "OCEAN at the highest clock spends its budget on computing: a longer deadline lets it schedule no more, "
    "and even at the shortest one set expansion schedules over twice as many samples"
)
SPENT_EARLY = (
    "with a large V OCEAN spends its energy in the first rounds, when queues are empty: it rises as fast as "
    "the others and then schedules too little to go on"
)
SPLIT = (
    "with a fixed split of the deadline OCEAN schedules nearly as many samples as set expansion, and more "
    "where it has more energy or time: it ends level"
)
NO_BUDGET = (
    "RS-WEL knows no budget: it schedules about twice the samples with ten to twenty times the energy, "
    "and its lead shrinks with the rounds"
)
MARGINAL = (
    "the optimum makes marginal powers equal, and computing and sending cost energy by different laws: "
    "the powers themselves differ"
)
SATURATED = "its lead shrinks with the rounds: MNIST is too easy to tell these policies apart at the end"
LAST_STEP = "only the step from V = 0.001 to 0.01 does: with more samples MNIST has nothing left to gain"
EVERYONE = (
    "RS-WEL schedules every device in every round, for the band is no limit here, with six to eleven times "
    "set expansion's energy"
)
SLOW_CLOCK = (
    "with nearly the whole deadline given to computing OCEAN schedules more devices than set expansion and "
    "`dual`, which let nearly all in at once, where the crowd makes each of them expensive"
)
CROWDS = (
    "with small V nearly all devices come at once, every dozen rounds or later: a larger V makes such a "
    "crowd more expensive, and the next waits longer"
)
MORE_CROWDS = (
    "nearly all devices come at once, more often with set expansion than with OCEAN (at the preset four "
    "against three times in 60 rounds), and each time brings several points"
)
CROWDED = (
    "within a round they do, by little; over all rounds it decides how many devices share the band, "
    "and these come in crowds"
)
ONE_OR_TWO = (
    "the fewer layers are shared, the faster devices learn and the sooner they overfit: one shared layer is "
    "ahead of two at first and level at the end"
)
SAME_STEPS = "both train all layers, with as many iterations: only what is sent differs"
OWED = "a queue asks for what was overspent to be saved later, and when the run ends some is still owed"
SAME_SETS = "where crowds come and go the two take the same sets nearly always"
SAME_COUNT = "both have ten devices per round on average at 2 J; `steady` spends less energy on them"

# Which figure and data set, words of the claim, the reason: the first that fits is taken.
RULES = (
    ("fig2, mnist", "sharing n = 2", ONE_OR_TWO),
    ("fig3, mnist", "needs more computation", SAME_STEPS),
    ("fig4, cifar10", "needs more computation", SAME_STEPS),
    ("fig5, ", "dual keeps every budget", OWED),
    ("fig5, cifar10", "dual schedules more samples than set expansion", SAME_SETS),
    ("fig5, cifar10", "dual ends above set expansion", SAME_SETS),
    ("fig5, cifar10", "dual schedules more samples than OCEAN's best", SLOW_CLOCK),
    ("fig5, cifar10", "steady schedules more samples than OCEAN's best", SAME_COUNT),
    ("fig3, mnist", "above FedAvg", STILL_RISING),
    ("fig3, mnist", "above training alone", ALONE),
    ("fig3, mnist", "FedRep, its best reading", FEDREP),
    ("fig3, mnist", "ends with earlier than fedrep", FEDREP),
    ("fig3, mnist", "fedrep, double work is more sensitive", NEARER_ITS_END),
    ("fig3, mnist", "after 40 rounds", SELDOM),
    ("fig3, mnist", "few devices", SELDOM),
    ("fig4, cifar10", "above FedAvg", FAR_FROM_DONE),
    ("fig4, cifar10", "ends above FedRep, its best reading", NEARLY_LEVEL),
    ("fig4, cifar10", "loss ends below FedRep, its best reading", OVERFITS_LATER),
    ("fig5, mnist", "to the letter: equal power", MARGINAL),
    ("fig5, mnist", "ends above set expansion", SATURATED),
    ("fig5, mnist", "RS-WEL", NO_BUDGET),
    ("fig5, mnist", "best fixed split", SPLIT),
    ("fig5, mnist", "OCEAN", LATE),
    ("fig6, mnist", "RS-WEL", NO_BUDGET),
    ("fig6, mnist", "not as good as OCEAN", CLOCK_SPENDS),
    ("fig6, mnist", "best fixed split", SPLIT),
    ("fig7, mnist", "best fixed split", SPLIT),
    ("fig7, mnist", "V = 0.1: set expansion", SPENT_EARLY),
    ("fig7, mnist", "OCEAN", LATE),
    ("fig7, mnist", "a larger V improves", LAST_STEP),
    ("fig5, cifar10", "to the letter: equal power", MARGINAL),
    ("fig5, cifar10", "poor channels", CROWDED),
    ("fig5, cifar10", "set expansion ends above OCEAN", MORE_CROWDS),
    ("fig6, cifar10", "set expansion ends above OCEAN", MORE_CROWDS),
    ("fig5, cifar10", "RS-WEL", EVERYONE),
    ("fig5, cifar10", "best fixed split", SLOW_CLOCK),
    ("fig6, cifar10", "RS-WEL", EVERYONE),
    ("fig6, cifar10", "best fixed split", SLOW_CLOCK),
    ("fig7, cifar10", "best fixed split", SLOW_CLOCK),
    ("fig7, cifar10", "set expansion ends above OCEAN", MORE_CROWDS),
    ("fig7, cifar10", "schedules more samples", CROWDS),
    ("fig7, cifar10", "uses more energy", CROWDS),
)


def reason(where: str, claim: str) -> str:
    """Of a claim about a figure, data set and reading, or nothing."""
    fitting = (text for place, words, text in RULES if where.startswith(place) and words in claim)
    return next(fitting, "")
