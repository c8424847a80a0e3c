// Another engine's topk: row by row the same set, one that ties allow, or a wrong one.
#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

#include "engine/io/formatted.h"
#include "engine/measure/door/family.h"
#include "engine/measure/door/judges.h"
#include "engine/measure/door/workspace.h"
#include "kernels/spec_sample/categorical.h"
#include "kernels/topk/order_key.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

// What is wrong with a row: the best score that it dropped and what stands in its place, or a fault
// of form.
struct Fault {
  std::int64_t row = 0, rank = 0;  // rank from 1, of the dropped score in its row
  std::int64_t dropped = -1;       // index
  double dropped_value = 0.0;
  std::int64_t taken = -1;  // index; -1: nothing
  double taken_value = 0.0;
  std::string form;  // a sentence's end where the row is no choice at all

  std::string text() const {
    const std::string place = formatted("row %lld: ", static_cast<long long>(row));
    if (!form.empty()) {
      return place + form;
    }
    const std::string instead = taken < 0 ? std::string("nothing in its place")
                                          : formatted("index %lld of value %.9g in its place",
                                                      static_cast<long long>(taken), taken_value);
    return place +
           formatted("rank %lld, index %lld of value %.9g, is dropped, with ",
                     static_cast<long long>(rank), static_cast<long long>(dropped), dropped_value) +
           instead;
  }
  json as_json() const {
    json out = {{"row", row}, {"text", text()}};
    if (form.empty()) {
      out["rank"] = rank;
      out["dropped"] = {{"index", dropped}, {"value", dropped_value}};
      out["taken"] = taken < 0 ? json() : json({{"index", taken}, {"value", taken_value}});
    }
    return out;
  }
};

// One row's scores and which are chosen, the reference's way.
template <class T>
class Row {
 public:
  using Bits = typename kernels::OrderBits<T>::Bits;

  Row(const T* scores, std::int64_t length, std::int64_t k)
      : scores_(scores), length_(length), chosen_(std::min(k, length)) {
    order_.resize(static_cast<std::size_t>(length));
    std::iota(order_.begin(), order_.end(), 0);
    std::partial_sort(order_.begin(), order_.begin() + chosen_, order_.end(),
                      [this](std::int64_t a, std::int64_t b) { return comes_before(a, b); });
    order_.resize(static_cast<std::size_t>(chosen_));
    ascending_ = order_;
    std::sort(ascending_.begin(), ascending_.end());
  }

  std::int64_t chosen() const { return chosen_; }
  double value(std::int64_t index) const { return kernels::as_double(scores_[index]); }
  Bits key(std::int64_t index) const {
    return kernels::order_key<T>(std::bit_cast<Bits>(scores_[index]));
  }
  bool comes_before(std::int64_t a, std::int64_t b) const {
    return key(a) != key(b) ? key(a) > key(b) : a < b;
  }
  const std::vector<std::int64_t>& order() const { return order_; }  // chosen indices by rank
  bool chooses(std::int64_t index) const {
    return std::binary_search(ascending_.begin(), ascending_.end(), index);
  }

  // What is wrong with these indices as a choice of the right size; empty: nothing.
  std::string form_fault(std::vector<std::int32_t>& indices) const {
    std::erase(indices, -1);
    for (const std::int32_t index : indices) {
      if (index < 0 || index >= length_) {
        return formatted("index %d lies outside its %lld scores", index,
                         static_cast<long long>(length_));
      }
    }
    std::sort(indices.begin(), indices.end());
    const auto twice = std::adjacent_find(indices.begin(), indices.end());
    return twice == indices.end() ? "" : formatted("index %d is taken twice", *twice);
  }

 private:
  const T* scores_;
  std::int64_t length_, chosen_;
  std::vector<std::int64_t> order_, ascending_;
};

struct RowVerdict {
  JudgedAs verdict = JudgedAs::kExact;
  std::int64_t moved = 0;  // entries that differ
  std::optional<Fault> fault;
};

// REQUIRES: `theirs` passed form_fault, so it is sorted.
template <class T>
RowVerdict judged(const Row<T>& row, const std::vector<std::int32_t>& theirs) {
  std::vector<std::int64_t> dropped, extra;
  for (const std::int64_t index : row.order()) {
    if (!std::binary_search(theirs.begin(), theirs.end(), static_cast<std::int32_t>(index))) {
      dropped.push_back(index);
    }
  }
  for (const std::int32_t index : theirs) {
    if (!row.chooses(index)) {
      extra.push_back(index);
    }
  }
  std::sort(extra.begin(), extra.end(),
            [&row](std::int64_t a, std::int64_t b) { return row.comes_before(a, b); });
  VERSIEVE_ASSERT(extra.size() <= dropped.size(), "distinct indices in range are no more than k");
  RowVerdict out{.moved = static_cast<std::int64_t>(dropped.size())};
  for (std::size_t i = 0; i < dropped.size(); ++i) {
    if (i < extra.size() && row.key(dropped[i]) == row.key(extra[i])) {
      out.verdict = JudgedAs::kTiesOnly;
      continue;
    }
    const auto rank = std::find(row.order().begin(), row.order().end(), dropped[i]);
    Fault fault{.rank = rank - row.order().begin() + 1,
                .dropped = dropped[i],
                .dropped_value = row.value(dropped[i])};
    if (i < extra.size()) {
      fault.taken = extra[i];
      fault.taken_value = row.value(extra[i]);
    }
    return {JudgedAs::kWrong, out.moved, fault};
  }
  return out;
}

// Values are the scores at the indices beside them, bit for bit but for the two zeros and NaNs.
template <class T>
std::string value_fault(const Row<T>& row, const std::int32_t* indices, const T* values,
                        std::int64_t k) {
  for (std::int64_t i = 0; i < k; ++i) {
    const auto key = kernels::order_key<T>(std::bit_cast<typename Row<T>::Bits>(values[i]));
    if (indices[i] >= 0 && key != row.key(indices[i])) {
      return formatted("value %.9g stands beside index %d, whose score is %.9g",
                       kernels::as_double(values[i]), indices[i], row.value(indices[i]));
    }
  }
  return "";
}

struct Totals {
  std::int64_t exact = 0, ties = 0, wrong = 0, moved = 0;
  std::optional<Fault> first;
};

template <class T>
Judgement judge_as(DoorInput& input, DoorInput& answers) {
  const std::vector<T> scores = input.floats<T>("scores", "R,Lp");
  input.require_at_least("R", 1);
  input.require_at_least("Lp", 1);
  const std::int64_t rows = input.dim("R"), length = input.dim("Lp");
  const std::int64_t k = input.integer_key("k", 1, (std::int64_t{1} << 28) / rows);
  answers.set_dim("R", rows);
  answers.set_dim("k", k);
  const std::vector<std::int32_t> indices = answers.any_integers("indices", "R,k");
  const std::vector<T> values =
      answers.has("values") ? answers.floats<T>("values", "R,k") : std::vector<T>();
  Totals all;
  for (std::int64_t r = 0; r < rows; ++r) {
    const Row<T> row(scores.data() + r * length, length, k);
    std::vector<std::int32_t> theirs(indices.begin() + r * k, indices.begin() + (r + 1) * k);
    RowVerdict verdict;
    std::string form = row.form_fault(theirs);
    if (form.empty()) {
      verdict = judged(row, theirs);
      if (verdict.verdict != JudgedAs::kWrong && !values.empty()) {
        form = value_fault(row, indices.data() + r * k, values.data() + r * k, k);
      }
    }
    if (!form.empty()) {
      verdict = {JudgedAs::kWrong, verdict.moved, Fault{.form = form}};
    }
    all.moved += verdict.moved;
    all.exact += verdict.verdict == JudgedAs::kExact ? 1 : 0;
    all.ties += verdict.verdict == JudgedAs::kTiesOnly ? 1 : 0;
    all.wrong += verdict.verdict == JudgedAs::kWrong ? 1 : 0;
    if (verdict.fault && !all.first) {
      all.first = verdict.fault;
      all.first->row = r;
    }
  }
  Judgement out;
  out.verdict = all.wrong > 0  ? JudgedAs::kWrong
                : all.ties > 0 ? JudgedAs::kTiesOnly
                               : JudgedAs::kExact;
  out.json = {{"rows", rows},
              {"k", k},
              {"rows_exact", all.exact},
              {"rows_ties", all.ties},
              {"rows_wrong", all.wrong},
              {"entries_moved", all.moved},
              {"values_judged", !values.empty()},
              {"first", all.first ? all.first->as_json() : json()}};
  out.sentence = formatted("topk: %s; of %lld rows %lld exact, %lld differ among ties, %lld wrong",
                           name_of(out.verdict), static_cast<long long>(rows),
                           static_cast<long long>(all.exact), static_cast<long long>(all.ties),
                           static_cast<long long>(all.wrong)) +
                 (all.first ? "; " + all.first->text() : "");
  return out;
}

}  // namespace

Judgement judge_topk(DoorInput& input, DoorInput& answers, const DoorRequest& request) {
  switch (request.dtype) {
    case kernels::Dtype::kF64:
      return judge_as<double>(input, answers);
    case kernels::Dtype::kF32:
      return judge_as<float>(input, answers);
    case kernels::Dtype::kBf16:
    case kernels::Dtype::kF16:  // of samplers alone
      break;
  }
  return judge_as<Bf16>(input, answers);
}

}  // namespace versieve::engine
