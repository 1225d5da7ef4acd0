"""No trusted party: every record is a holder of its own and randomizes its message before it sends it."""

import tacit

parts = tacit.digits()
run = tacit.distill(
    (parts.private_samples, parts.private_labels),
    parts.public_samples,
    epsilon=4.0,
    classes=range(10),
    trust="local",
)

print(run.guarantee)
print("chosen:", run.recipe["mechanism"])
print("accuracy:", (run.student.predict(parts.test_samples) == parts.test_labels).mean())
