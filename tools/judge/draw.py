"""Draws a second set of operators and programs from pages.toml, by another seed: ``python -m tools.judge.draw``.

Operators: one layer of each section of torch.nn, and eight of the functions common in models; then nine of the page
torch (one of each of its nine sections), three of torch.nn.functional, three of torch.linalg and three of torch.fft.
None twice, and none of the first set (drawn.toml): a layer, its function and a function of another page of the same
name count as one. A section with none left gives its draw to the functions common in models. Each has a size (of the
five of its kind in SIZES, by what it takes), a type, a layout, forward alone or with backward, and a number from 0 to 1
that chooses among usual options (kernel, stride, axis). A drawn number that does not apply is dropped: linalg and fft
take float32 alone, and what has no gradient runs forward alone. Where the inputs, results and gradients of a size
exceed 64 GB, the next size of the list that fits is taken, the first after the last.

Programs: of the tasks of transformers, of torchvision's models, and of pytorch/examples, each a family that the first
set has not, a way to run it, a batch and a length. A length ends at a model's positions. A family is taken whose
default configuration builds on the meta device without further packages or arguments; one above 1.5e9 parameters is
cut to 8 layers; one that is then still above 3e9 is passed over, and the next of the shuffled list taken. So is one
whose step does not run on fake tensors of a GPU: it leaves a tensor on the CPU, or asks for a value, and the work may
then differ from step to step. Layers are not left out by chance (layerdrop and stochastic depth are 0). A step of more
than 5e13 FLOP, or one that holds more than 64 GB, takes the next smaller batch of those drawn from.
"""

import random
import tomllib
from pathlib import Path

SEED = 20261130
FIRST = tomllib.loads(Path(__file__).with_name("drawn.toml").read_text())
FAMILIES = {*(each["name"].rsplit("-", 1)[0] for each in FIRST["program"]), "word_language_model-lstm"}
SIZES = {
    "sequence": [(8, 512, 768), (32, 128, 1024), (4, 2048, 2048), (1, 8192, 4096), (64, 256, 512)],
    "image": [(32, 64, 112, 112), (64, 256, 56, 56), (16, 3, 224, 224), (128, 512, 14, 14), (4, 128, 256, 256)],
    "audio": [(16, 1, 160000), (8, 80, 3000), (32, 256, 4096), (64, 512, 499), (4, 64, 65536)],
    "volume": [
        (2, 32, 32, 64, 64),
        (1, 16, 64, 128, 128),
        (8, 64, 16, 56, 56),
        (4, 3, 16, 112, 112),
        (2, 128, 16, 32, 32),
    ],
    "matrix": [(1024, 1024), (4096, 4096), (8192, 1024), (2048, 32000), (65536, 256)],
    "elements": [(2**16,), (2**20,), (3_000_000,), (2**24,), (2**27,)],
    "batch of matrices": [(4096, 8, 8), (512, 32, 32), (64, 128, 128), (8, 512, 512), (1, 2048, 2048)],
    "signal": [(256, 1024), (64, 65536), (8, 2**20), (16, 512, 512), (32, 3, 224, 224)],
}
WAYS = {
    "language": ["train float32", "train autocast bfloat16", "infer bfloat16", "decode bfloat16"],
    "encoder": ["train float32", "train autocast bfloat16", "infer float32", "infer bfloat16"],
    "vision": [
        "train float32",
        "train autocast bfloat16 channels_last",
        "infer float32 channels_last",
        "infer float16 channels_last",
    ],
}
PLAN = [
    ("CausalLM", "language", 3),
    ("MaskedLM", "encoder", 1),
    ("Seq2SeqLM", "language", 1),
    ("ImageClassification", "encoder", 1),
    ("CTC", "encoder", 1),
    ("torchvision classification", "vision", 2),
    ("torchvision segmentation", "vision", 1),
    ("torchvision video", "vision", 1),
    ("examples", "encoder", 1),
]


def operators(pages: dict[str, dict[str, str]], chance: random.Random) -> list[dict[str, object]]:
    names: list[str] = []
    taken = {bare(each["name"]) for each in FIRST["operator"]}

    def take(listed: list[str], count: int = 1) -> None:
        chance.shuffle(listed)
        for _ in range(count):
            if left := [name for name in listed if bare(name) not in taken]:
                names.append(left[0])
                taken.add(bare(left[0]))

    for section in pages["layers"].values():
        take(["nn." + name for name in section.split()])
    take(pages["common"]["names"].split(), 8 + len(pages["layers"]) - len(names))
    for page, count in (("torch", 9), ("functional", 3), ("linalg", 3), ("fft", 3)):
        place = {"torch": "", "functional": "nn.functional."}.get(page, page + ".")
        sections = [list(section.split()) for section in pages[page].values()] * (1 if page == "torch" else count)
        for section in sections:
            take([place + name for name in section])
    return [numbers(name, chance) for name in names]


def bare(name: str) -> str:
    """What a layer, its function and that of another page have in common."""
    return name.rsplit(".", 1)[-1].lower().replace("_", "")


def numbers(name: str, chance: random.Random) -> dict[str, object]:
    return {
        "name": name,
        "size": chance.randrange(5),
        "dtype": chance.choices(["float32", "bfloat16", "float16"], [4, 4, 2])[0],
        "layout": chance.choices(["contiguous", "channels_last, transposed or a slice"], [3, 1])[0],
        "backward": chance.random() < 0.5,
        "option": round(chance.random(), 2),
    }


def programs(pages: dict[str, dict[str, str]], chance: random.Random) -> list[dict[str, object]]:
    found = []
    for task, kind, count in PLAN:
        families = sorted({*listed(task, pages)} - FAMILIES)
        chance.shuffle(families)
        for place in range(count):
            run = {"way": chance.choice(WAYS[kind]), "batch": chance.choice([1, 4, 16, 32])}
            run["length"] = chance.choice([128, 512, 1024])
            found.append({"task": task, "families": families[place::count][:12]} | run)
    return found


def listed(task: str, pages: dict[str, dict[str, str]]) -> list[str]:
    if task == "examples":
        return pages["examples"]["all"].split()
    if task.startswith("torchvision"):
        from torchvision import models

        module = {"classification": models, "segmentation": models.segmentation, "video": models.video}[task.split()[1]]
        return models.list_models(module=module)
    from transformers.models.auto import modeling_auto

    words = {"CausalLM": "CAUSAL_LM", "MaskedLM": "MASKED_LM", "Seq2SeqLM": "SEQ_TO_SEQ_CAUSAL_LM", "CTC": "CTC"}
    return list(getattr(modeling_auto, f"MODEL_FOR_{words.get(task, 'IMAGE_CLASSIFICATION')}_MAPPING_NAMES"))


if __name__ == "__main__":
    pages = tomllib.loads(Path(__file__).with_name("pages.toml").read_text())
    chance = random.Random(SEED)
    for each in [*operators(pages, chance), *programs(pages, chance)]:
        print(each)
