"""A mixed table with pandas: numbers, categories, dates and gaps, and a student that takes new rows as they are."""

import numpy as np
import pandas as pd

import tacit

chance = np.random.default_rng(7)


def visits(count):
    ill = chance.random(count) < 0.5
    table = pd.DataFrame(
        {
            "age": np.where(ill, chance.normal(70, 10, count), chance.normal(45, 10, count)).round(2),
            "sex": chance.choice(["f", "m"], count),
            "ward": np.where(ill, chance.choice(["north", "west"], count), chance.choice(["south", "west"], count)),
            "seen": pd.Timestamp("2024-01-01") + pd.to_timedelta(chance.integers(0, 365, count), unit="D"),
        }
    )
    table.loc[chance.random(count) < 0.05, "age"] = np.nan  # gaps stay gaps
    return table, np.where(ill, "ill", "well")


private, outcomes = visits(800)  # must not leave
public, _ = visits(400)  # may be seen by anybody
test, truth = visits(300)

run = tacit.distill((private, outcomes), public, epsilon=1.0, delta=1e-5, classes=["ill", "well"])

print(run)
print("accuracy on new rows:", (run.student.predict(test) == truth).mean())
