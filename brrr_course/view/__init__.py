"""The explorer: sliders and a figure over any experiment and any source."""
