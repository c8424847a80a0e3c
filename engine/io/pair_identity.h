// Which pair a folder holds: a hash of every file that decides what it writes, and a name for
// people. What is measured of a pair is stored under both, and only the hash is ever compared.
//
// The hash is SHA-256 of the lines that `sha256sum config.json WEIGHTS tokenizer.json
// draft/config.json draft/WEIGHTS` prints in the folder (weights by name; tokenizer.model, or none,
// where there is no tokenizer.json; no draft where there is none), so that anyone can check it:
// `sha256sum ... | sha256sum`.
#pragma once

#include <filesystem>

#include "model/words/pair_id.h"

namespace versieve::engine {

// Reads every byte. The name: `_name_or_path` of the config, or the folder's, in front of which
// stands its parent's where it says no more than how the model attends ("nsa", "dense"). Throws
// Error(kBadInput) for a folder that is no model's.
PairId pair_identity(const std::filesystem::path& folder);
// The same of a folder with weights; without them a configuration is enough for a price, not for an
// identity: the name, and no hash.
PairId known_identity(const std::filesystem::path& folder);
// The name alone.
std::string pair_name(const std::filesystem::path& folder);

}  // namespace versieve::engine
