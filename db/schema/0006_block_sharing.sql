-- What the selections of a verification step's queries share, of an acceptance point, by layer: means
-- over its steps. Absent: no step could show it.
CREATE TABLE block_sharing (
  point_id       INTEGER NOT NULL REFERENCES point ON DELETE CASCADE,
  along          TEXT NOT NULL CHECK (along IN ('bfs', 'dfs', 'position')), -- what distances count
  layer          INTEGER NOT NULL,
  steps          INTEGER NOT NULL,
  overlap_0      REAL,                 -- |I(p) and I(q)| / n of queries so far apart
  overlap_1      REAL,
  overlap_2      REAL,
  overlap_3      REAL,
  overlap_4      REAL,
  overlap_5      REAL,
  overlap_6      REAL,
  overlap_7      REAL,
  overlap_8      REAL,
  group_blocks_2 REAL,                 -- distinct blocks of a group of so many neighbours
  group_blocks_4 REAL,
  group_blocks_8 REAL,
  loads_saved_2  REAL,                 -- share of all queries' loads, each block once a group
  loads_saved_4  REAL,
  loads_saved_8  REAL,
  next_layer     REAL,                 -- overlap with the same query's blocks a layer on
  PRIMARY KEY (point_id, along, layer)
) STRICT, WITHOUT ROWID;
