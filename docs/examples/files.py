"""Writes the small files that the pages use: visits to a hospital, some with the diagnosis that must stay private."""

import csv
import random

random.seed(7)


def visit():
    ill = random.random() < 0.5
    return {
        "age": "" if random.random() < 0.05 else round(random.gauss(70 if ill else 45, 10)),
        "pressure": round(random.gauss(150 if ill else 120, 12), 2),
        "ward": random.choice(["north", "north", "west"] if ill else ["south", "south", "west"]),
        "smokes": random.choice(["yes", "yes", "no"] if ill else ["yes", "no", "no"]),
        "diagnosis": "ill" if ill else "well",
    }


def write(file, rows, **more):
    rows = [row | {name: made(place) for name, made in more.items()} for place, row in enumerate(rows)]
    with open(file, "w", newline="") as opened:
        table = csv.DictWriter(opened, rows[0])
        table.writeheader()
        table.writerows(rows)


def unlabeled(count):
    return [{name: value for name, value in visit().items() if name != "diagnosis"} for _ in range(count)]


write("records.csv", [visit() for _ in range(3000)], patient=lambda place: place // 3)  # three visits per patient
write("clinics.csv", [visit() for _ in range(900)], clinic=lambda place: f"clinic {place % 30}")
write("samples.csv", unlabeled(400))  # public, without a diagnosis
write("new.csv", unlabeled(5))  # to predict
write("tested.csv", [visit() for _ in range(300)])  # to predict and compare
