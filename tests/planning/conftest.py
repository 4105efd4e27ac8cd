"""A small fleet that needs nothing but what is written here."""

import pytest

FLEET = """
[cell]
bandwidth_hz = 1e6
noise_dbm_per_hz = -171.0
side_m = 2000.0
min_distance_m = 10.0
reference_gain_db = -110.0
reference_distance_m = 1000.0
path_loss_exponent = 3.5

[fleet]
devices = 40
samples = 50
cycles_per_sample = 2e5
max_frequency_hz = 64e6
max_power_w = 0.2
budget_j = 0.2
energy_coefficient = 3e-26
sleep_power_w = 1e-5
battery_wh = 5

[learning]
upload_bits = 2000000
iterations = 2

[plan]
deadline_s = [2, 8]
rounds_per_day = [4, 24]
band_share = {low = 0.1, high = 1, steps = 2}
"""


@pytest.fixture(scope="module")
def write(tmp_path_factory):
    """Writes the file with parts of its text replaced."""

    def write(*pairs, text=FLEET):
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path_factory.mktemp("plan") / "fleet.toml"
        path.write_text(text)
        return path

    return write
