"""Persons with several records each: the guarantee covers a person, not one row."""

import numpy as np

import tacit

parts = tacit.digits()
persons = np.arange(1000) // 3  # the person that each record belongs to
unit = tacit.Unit.person("patient", 2)  # at most two records of each person are used

run = tacit.distill(
    (parts.private_samples, parts.private_labels),
    parts.public_samples,
    epsilon=4.0,
    classes=range(10),
    persons=persons,
    unit=unit,
)

print(run.guarantee)
print("a family of three:", run.for_group(3).epsilon)
