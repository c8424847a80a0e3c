"""The sequence lengths for which the pieces are compiled, and the draft's unrolled steps."""

FIRST, SHORT, LONG, DRAFT_LENGTH = 2048, 4096, 16384, 4096
STEPS = 7
