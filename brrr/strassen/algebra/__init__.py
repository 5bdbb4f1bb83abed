"""Strassen's and Winograd's algorithms as algebra: forms, schedules, shapes, a plain reference."""
