from .layer import PersistentRNN as PersistentRNN
