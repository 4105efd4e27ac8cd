"""The same policies and algorithms on real devices, as a Flower app: `flwr run .` (extra: flower).

`server` decides and aggregates, `client` trains, and `messages` is all that travels between them: down go the
settings, an order and the extractor; up go a profile, or the extractor in 16 bits with a report. `loopback`
starts a whole federation on one machine.
"""
