"""Which machine is this: probes, clocks, datasheets, and the doctor."""
