// Lists of committed tokens, a layer each, and the selector that hands them to a target.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/run/model/device_ints.h"
#include "engine/run/model/token_selector.h"
#include "model/words/strategy.h"

namespace versieve::engine {

// Ascending positions below a context's length.
using TokenList = std::vector<std::int32_t>;

// What was read of the committed tokens, summed over verifies and layers.
struct ReadCount {
  std::int64_t read = 0;
  std::int64_t present = 0;

  ReadCount& operator+=(const ReadCount& other) {
    read += other.read;
    present += other.present;
    return *this;
  }
  double saved() const {
    return present == 0 ? 0.0 : 1.0 - static_cast<double>(read) / static_cast<double>(present);
  }
};

// Of one layer of a step by an indexer over so many committed tokens; nothing of other strategies.
ReadCount indexed_reads(const Strategy& strategy, std::int64_t context_len);

// The given lists; an empty entry reads everything. per_kv_head lists come from a subclass.
template <class T>
class ListSelector : public TokenSelector<T> {
 public:
  explicit ListSelector(kernels::Ops<T>& ops) : ops_(&ops) {}

  kernels::SelectedTokens select(const LayerQueries<T>& layer) override;
  const ReadCount& reads() const { return reads_; }

 protected:
  // The layer's tokens, or null: all of them.
  virtual const TokenList* tokens_of(const LayerQueries<T>& layer) = 0;
  // Lists of G KV heads, one after the other, instead of one list.
  virtual bool per_kv_head() const { return false; }
  kernels::Ops<T>& ops() const { return *ops_; }

 private:
  kernels::Ops<T>* ops_;
  DeviceInts<T> staged_;
  ReadCount reads_;
};

}  // namespace versieve::engine
