"""Why a claim came out as it did, where that was looked into: text by `Claim.key`."""

REASONS: dict[str, str] = {}
