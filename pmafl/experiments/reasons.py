"""Why a claim came out as it did, where that was looked into: text by `Claim.key`."""

FEDREP = (
    "read as head 5 and then extractor 5 iterations, FedRep does twice PMA-FL's work and ends above it; "
    "with equal work (5 in all) it ends below"
)
REASONS: dict[str, str] = {
    "fig3, mnist: 10 devices: PMA-FL ends above FedRep, its better reading": FEDREP,
    "fig3, mnist: 50 devices: PMA-FL ends above FedRep, its better reading": FEDREP,
}
