"""What a diagnosis is judged by: workloads whose regime interventions tell, and programs with a planted fault."""
