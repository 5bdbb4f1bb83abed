"""The persistent megakernel: the textbook network in one launch, its plans and their times."""
