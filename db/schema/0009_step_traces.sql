-- One measured step of a step point, launch by launch, by the GPU's own clock. Absent: nobody traced
-- it (a CPU, no CUPTI, an older program).
CREATE TABLE step_trace (
  point_id  INTEGER PRIMARY KEY REFERENCES point ON DELETE CASCADE,
  replayed  INTEGER NOT NULL CHECK (replayed IN (0, 1)), -- from a CUDA graph; else led by the host
  period_ns REAL                       -- to the first launch of the step behind it; NULL: none was
) STRICT;

CREATE TABLE traced_launch (
  point_id    INTEGER NOT NULL REFERENCES step_trace ON DELETE CASCADE,
  ordinal     INTEGER NOT NULL,        -- by start
  kernel      INTEGER NOT NULL REFERENCES word, -- without parameters; 'memset', 'memcpy DtoH'
  range       INTEGER NOT NULL REFERENCES word, -- the NVTX range it lies in; 0: unknown
  evidence    INTEGER NOT NULL REFERENCES word, -- of the range: launched, order, name, unknown
  start_ns    INTEGER NOT NULL,        -- since the step's first launch began
  duration_ns INTEGER NOT NULL,
  stream      INTEGER NOT NULL,
  blocks      INTEGER NOT NULL,        -- of the grid; 0: a copy or a memset
  threads     INTEGER NOT NULL,        -- of a block
  PRIMARY KEY (point_id, ordinal)
) STRICT, WITHOUT ROWID;

-- Which blocks each node of a step's tree selected, in one layer, of one KV head. Nodes are numbered
-- in traversal order, so that those of a group stand together.
CREATE TABLE block_choice (
  point_id INTEGER PRIMARY KEY REFERENCES point ON DELETE CASCADE,
  layer    INTEGER NOT NULL,
  kv_head  INTEGER NOT NULL
) STRICT;

CREATE TABLE tree_node (
  point_id INTEGER NOT NULL REFERENCES block_choice ON DELETE CASCADE,
  node     INTEGER NOT NULL,
  parent   INTEGER NOT NULL CHECK (parent < node), -- -1: the root
  PRIMARY KEY (point_id, node)
) STRICT, WITHOUT ROWID;

CREATE TABLE chosen_block (
  point_id INTEGER NOT NULL,
  node     INTEGER NOT NULL,
  block    INTEGER NOT NULL,
  PRIMARY KEY (point_id, node, block),
  FOREIGN KEY (point_id, node) REFERENCES tree_node ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- For people with a SQL prompt.
CREATE VIEW v_traced_launch AS
SELECT t.point_id, t.ordinal, range.text AS range, evidence.text AS evidence,
       kernel.text AS kernel, t.start_ns, t.duration_ns, t.stream, t.blocks, t.threads
FROM traced_launch t
  JOIN word kernel ON kernel.id = t.kernel
  JOIN word range ON range.id = t.range
  JOIN word evidence ON evidence.id = t.evidence;
