"""What package and course both draw: one figure style, the badge's stamp, the roofline, the timeline."""
