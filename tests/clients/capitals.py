"""Writes a task for lm-eval into the folder that is given: 50 questions that the demo knows, with wrong answers beside the right one."""
import json
import sys
from pathlib import Path

CAPITALS = {"France": "Paris", "Italy": "Rome", "Spain": "Madrid", "Japan": "Tokyo", "Egypt": "Cairo", "Peru": "Lima", "Norway": "Oslo",
            "Greece": "Athens", "Austria": "Vienna", "Cuba": "Havana"}
TASK = """task: stoker_capitals
dataset_path: json
dataset_kwargs:
  data_files:
    test: {data}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: answer
target_delimiter: ""
metric_list:
  - metric: acc
"""

folder = Path(sys.argv[1])
countries = list(CAPITALS)
with open(folder / "capitals.jsonl", "w", encoding="utf-8") as lines:
    for i in range(50):
        country = countries[i % 10]
        wrong = [CAPITALS[countries[(i + step) % 10]] for step in (1, 2 + i // 10)]
        choices = [f" {capital}" for capital in (CAPITALS[country], *wrong)]
        lines.write(json.dumps({"question": f"The capital of {country} is", "choices": choices, "answer": 0}) + "\n")
(folder / "capitals.yaml").write_text(TASK.format(data=folder / "capitals.jsonl"), encoding="utf-8")
