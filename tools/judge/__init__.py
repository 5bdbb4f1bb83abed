"""How far predictions and diagnoses are from what was measured: one table of errors by device and group."""
