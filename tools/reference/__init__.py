"""Recording a new reference: the long sweep of one GPU, with its fits, that predictions of every other GPU rest on."""
