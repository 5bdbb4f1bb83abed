"""The commands behind `brrr`: lab, doctor, record, join, calibrate, claims, time, diagnose."""
