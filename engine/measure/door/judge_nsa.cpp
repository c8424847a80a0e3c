// Another engine's nsa_verify: which blocks each row chose, against the importance that a float64
// reference gives them, and what it attended, against that reference with the very blocks that were
// chosen. So a wrong choice and a wrong attention are told apart.
#include <algorithm>
#include <cmath>
#include <optional>

#include "engine/io/formatted.h"
#include "engine/io/safetensors_bytes.h"
#include "engine/measure/door/family.h"
#include "engine/measure/door/judges.h"
#include "engine/measure/door/workspace.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

// The door's tolerances (README.md): importance of candidates that may change places, the output's
// relative norm, and a row's.
struct Tolerance {
  double importance, out, row;
};

Tolerance tolerance_of(kernels::Dtype dtype) {
  switch (dtype) {
    case kernels::Dtype::kF64:
      return {1e-10, 1e-10, 1e-9};
    case kernels::Dtype::kF32:
      return {1e-5, 1e-5, 1e-4};
    case kernels::Dtype::kBf16:
    case kernels::Dtype::kF16:  // of samplers alone
      break;
  }
  return {2e-2, 1e-2, 3e-2};
}

Tensor copy_of(const TensorView& view) {
  return {.type = view.type, .shape = view.shape, .bytes = {view.bytes.begin(), view.bytes.end()}};
}

template <class T>
Tensor rounded(const TensorView& view, const std::string& name) {
  std::vector<double> wide;
  for (const T value : values_as<T>(view, name)) {
    if constexpr (std::is_same_v<T, Bf16>) {
      wide.push_back(static_cast<double>(to_float(value)));
    } else {
      wide.push_back(static_cast<double>(value));
    }
  }
  return tensor_of(wide, view.shape);
}

// The inputs with every float rounded to the dtype that the other engine read them in.
TensorSet rounded_inputs(const SafetensorsFile& file, kernels::Dtype dtype) {
  TensorSet set{.tensors = {}, .metadata = file.metadata()};
  for (const auto& [name, view] : file.tensors()) {
    const bool is_float = view.type == StorageType::kF32 || view.type == StorageType::kF64 ||
                          view.type == StorageType::kF16;
    if (!is_float || dtype == kernels::Dtype::kF64) {
      set.tensors[name] = copy_of(view);
    } else {
      set.tensors[name] =
          dtype == kernels::Dtype::kF32 ? rounded<float>(view, name) : rounded<Bf16>(view, name);
    }
  }
  return set;
}

struct Reference {
  std::vector<std::int32_t> indices;
  std::vector<double> importance, out;
  std::int64_t blocks = 0;
};

template <class T>
std::vector<T> values(const TensorSet& set, const char* name) {
  const Tensor& tensor = set.tensors.at(name);
  return values_as<T>(TensorView{.type = tensor.type, .shape = tensor.shape, .bytes = tensor.bytes},
                      name);
}

Reference reference_of(const TensorSet& inputs, const std::string& source, DoorRequest request) {
  request.dtype = kernels::Dtype::kF64;
  const TensorSet results =
      door_results(SafetensorsFile::parse(safetensors_bytes(inputs), source), request);
  Reference out{.indices = values<std::int32_t>(results, "indices"),
                .out = values<double>(results, "out")};
  if (results.tensors.count("importance") != 0) {
    out.importance = values<double>(results, "importance");
    out.blocks = results.tensors.at("importance").shape.back();
  }
  return out;
}

// Which choice is judged: a row and KV head, with what its reference routed by.
struct Choice {
  std::int64_t row = 0, head = 0, block_now = 0;  // ⌊t/B⌋ of the row that routed
  std::vector<std::int32_t> ours;                 // without -1
  const double* importance = nullptr;             // [blocks]
};

struct Forced {
  std::int64_t init = 0, local = 0;

  bool holds(std::int64_t block, std::int64_t block_now) const {
    return block < init || block > block_now - local;
  }
};

struct Fault {
  std::int64_t row = 0, head = 0;
  std::int64_t rank = 0;  // from 1, among the candidates by importance; 0: no question of rank
  std::int64_t dropped = -1, taken = -1;
  double dropped_value = 0.0, taken_value = 0.0;
  std::string form;

  std::string text() const {
    const std::string place = formatted("row %lld, KV head %lld: ", static_cast<long long>(row),
                                        static_cast<long long>(head));
    if (!form.empty()) {
      return place + form;
    }
    return place + formatted(
                       "rank %lld, block %lld of importance %.9g, is dropped, with block "
                       "%lld of %.9g in its place",
                       static_cast<long long>(rank), static_cast<long long>(dropped), dropped_value,
                       static_cast<long long>(taken), taken_value);
  }
  json as_json() const {
    json out = {{"row", row}, {"kv_head", head}, {"text", text()}};
    if (form.empty()) {
      out["rank"] = rank;
      out["dropped"] = {{"block", dropped}, {"importance", dropped_value}};
      out["taken"] = {{"block", taken}, {"importance", taken_value}};
    }
    return out;
  }
};

std::string form_fault(const Choice& choice, std::vector<std::int32_t>& theirs) {
  std::erase(theirs, -1);
  std::sort(theirs.begin(), theirs.end());
  if (theirs.size() != choice.ours.size()) {
    return formatted("%zu blocks where %zu are wanted", theirs.size(), choice.ours.size());
  }
  for (const std::int32_t block : theirs) {
    if (block < 0 || block > choice.block_now) {
      return formatted("block %d, and the row's own is %lld", block,
                       static_cast<long long>(choice.block_now));
    }
  }
  const auto twice = std::adjacent_find(theirs.begin(), theirs.end());
  return twice == theirs.end() ? "" : formatted("block %d is taken twice", *twice);
}

struct RowVerdict {
  JudgedAs verdict = JudgedAs::kExact;
  std::optional<Fault> fault;
};

RowVerdict judged(const Choice& choice, std::vector<std::int32_t>& theirs, const Forced& forced,
                  double tolerance) {
  Fault fault{.row = choice.row, .head = choice.head, .form = form_fault(choice, theirs)};
  if (!fault.form.empty()) {
    return {JudgedAs::kWrong, fault};
  }
  std::vector<std::int32_t> dropped, taken;
  std::set_difference(choice.ours.begin(), choice.ours.end(), theirs.begin(), theirs.end(),
                      std::back_inserter(dropped));
  std::set_difference(theirs.begin(), theirs.end(), choice.ours.begin(), choice.ours.end(),
                      std::back_inserter(taken));
  const auto by_importance = [&choice](std::int32_t a, std::int32_t b) {
    const double left = choice.importance[a], right = choice.importance[b];
    return left != right ? left > right : a < b;
  };
  std::sort(dropped.begin(), dropped.end(), by_importance);
  std::sort(taken.begin(), taken.end(), by_importance);
  for (std::size_t i = 0; i < dropped.size(); ++i) {
    if (forced.holds(dropped[i], choice.block_now)) {
      fault.form = formatted("block %d is forced and not taken", dropped[i]);
      return {JudgedAs::kWrong, fault};
    }
    const double lost = choice.importance[dropped[i]], got = choice.importance[taken[i]];
    if (lost - got > tolerance * std::max(std::fabs(lost), std::fabs(got))) {
      fault.dropped = dropped[i];
      fault.taken = taken[i];
      fault.dropped_value = lost;
      fault.taken_value = got;
      fault.rank = 1;
      for (std::int32_t block = 0; block <= choice.block_now; ++block) {
        const bool is_candidate = !forced.holds(block, choice.block_now);
        fault.rank += is_candidate && by_importance(block, dropped[i]) ? 1 : 0;
      }
      return {JudgedAs::kWrong, fault};
    }
  }
  return {dropped.empty() ? JudgedAs::kExact : JudgedAs::kTiesOnly, std::nullopt};
}

// The row whose routing row `row` follows: itself, but in a group of `approx`.
std::int64_t routing_row(const std::vector<std::int32_t>& position, std::int64_t row,
                         std::int64_t group) {
  const std::int64_t first = row / group * group;
  const std::int64_t end =
      std::min<std::int64_t>(first + group, static_cast<std::int64_t>(position.size()));
  return std::max_element(position.begin() + first, position.begin() + end) - position.begin();
}

struct ChoiceTotals {
  std::int64_t exact = 0, ties = 0, wrong = 0;
  std::optional<Fault> first;
};

// `theirs` [N, G, n]: each row's blocks come out ascending, then -1.
ChoiceTotals judge_choices(DoorInput& input, const Reference& reference, const DoorRequest& request,
                           std::vector<std::int32_t>& theirs) {
  const std::vector<std::int32_t> position = input.integers("position", "N");
  const std::int64_t heads = input.dim("G");
  const std::int64_t count = input.integer_key("sel_count", 1, 1 << 20);
  const std::int64_t block = input.integer_key("sel_block", 1, 1 << 20);
  const std::int64_t group =
      request.variant == "approx" ? input.integer_key("group_size", 1, INT32_MAX) : 1;
  const Forced forced{.init = input.integer_key("init_blocks", 0, 1 << 20),
                      .local = input.integer_key("local_blocks", 0, 1 << 20)};
  const double tolerance = tolerance_of(request.dtype).importance;
  ChoiceTotals out;
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(position.size()); ++row) {
    const std::int64_t router = routing_row(position, row, group);
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t at = (row * heads + head) * count;
      Choice choice{
          .row = row,
          .head = head,
          .block_now = position[static_cast<std::size_t>(router)] / block,
          .ours = {reference.indices.begin() + at, reference.indices.begin() + at + count},
          .importance = reference.importance.data() + (router * heads + head) * reference.blocks};
      std::erase(choice.ours, -1);
      std::vector<std::int32_t> own(theirs.begin() + at, theirs.begin() + at + count);
      const RowVerdict verdict = judged(choice, own, forced, tolerance);
      own.resize(static_cast<std::size_t>(count), -1);
      std::copy(own.begin(), own.end(), theirs.begin() + at);
      out.exact += verdict.verdict == JudgedAs::kExact ? 1 : 0;
      out.ties += verdict.verdict == JudgedAs::kTiesOnly ? 1 : 0;
      out.wrong += verdict.verdict == JudgedAs::kWrong ? 1 : 0;
      out.first = out.first ? out.first : verdict.fault;
    }
  }
  return out;
}

struct OutputError {
  double whole = 0.0, worst = 0.0;  // relative norms, of all rows and of the worst
  std::int64_t row = 0;
  bool is_right = true;
};

OutputError output_error(const std::vector<double>& theirs, const std::vector<double>& ours,
                         std::int64_t rows, const Tolerance& tolerance) {
  const std::size_t width = ours.size() / static_cast<std::size_t>(rows);
  double off = 0.0, norm = 0.0;
  OutputError out;
  const auto ratio = [](double a, double b) { return b > 0.0 ? a / b : (a > 0.0 ? 1.0 : 0.0); };
  for (std::int64_t row = 0; row < rows; ++row) {
    double row_off = 0.0, row_norm = 0.0;
    for (std::size_t i = 0; i < width; ++i) {
      const std::size_t at = static_cast<std::size_t>(row) * width + i;
      row_off += (theirs[at] - ours[at]) * (theirs[at] - ours[at]);
      row_norm += ours[at] * ours[at];
    }
    const double error = std::sqrt(ratio(row_off, row_norm));
    if (error > out.worst) {
      out.worst = error;
      out.row = row;
    }
    off += row_off;
    norm += row_norm;
  }
  out.whole = std::sqrt(ratio(off, norm));
  out.is_right = out.whole <= tolerance.out && out.worst <= tolerance.row;
  return out;
}

void take(Judgement& out, const ChoiceTotals& choices) {
  out.verdict = choices.wrong > 0  ? JudgedAs::kWrong
                : choices.ties > 0 ? JudgedAs::kTiesOnly
                                   : JudgedAs::kExact;
  out.json["choices"] = {{"exact", choices.exact},
                         {"ties", choices.ties},
                         {"wrong", choices.wrong},
                         {"first", choices.first ? choices.first->as_json() : json()}};
  out.sentence += formatted(
                      "; of %lld choices of blocks %lld exact, %lld differ among ties, %lld "
                      "wrong",
                      static_cast<long long>(choices.exact + choices.ties + choices.wrong),
                      static_cast<long long>(choices.exact), static_cast<long long>(choices.ties),
                      static_cast<long long>(choices.wrong)) +
                  (choices.first ? "; " + choices.first->text() : "");
}

void take(Judgement& out, const OutputError& error, bool with_their_blocks) {
  out.verdict = error.is_right ? out.verdict : JudgedAs::kWrong;
  out.json["out"] = {{"relative_error", error.whole},
                     {"worst_row_error", error.worst},
                     {"worst_row", error.row},
                     {"right", error.is_right},
                     {"with_their_blocks", with_their_blocks}};
  out.sentence += formatted("; out is %s%s: relative error %.3g, of row %lld %.3g",
                            error.is_right ? "right" : "wrong",
                            with_their_blocks ? " for the blocks that it chose" : "", error.whole,
                            static_cast<long long>(error.row), error.worst);
}

}  // namespace

Judgement judge_nsa_verify(DoorInput& input, DoorInput& answers, const DoorRequest& request) {
  const bool routes = request.variant != "reuse";
  if (!answers.has("out") && !(routes && answers.has("indices"))) {
    answers.refuse(routes ? "holds neither indices nor out" : "holds no out");
  }
  TensorSet inputs = rounded_inputs(input.file(), request.dtype);
  const Reference reference = reference_of(inputs, input.file().source(), request);
  const TensorView& q = *input.file().find("q");  // the reference has read it
  const std::int64_t rows = q.shape[0];
  input.set_dim("G", input.file().find("k")->shape[1]);
  for (const auto& [letter, size] : {std::pair("N", rows), std::pair("H", q.shape[1]),
                                     std::pair("d", q.shape[2]), std::pair("G", input.dim("G")),
                                     std::pair("n", input.integer_key("sel_count", 1, 1 << 20))}) {
    answers.set_dim(letter, size);
  }
  Judgement out;
  const std::vector<double>* expected = &reference.out;
  Reference with_theirs;
  const bool has_choices = routes && answers.has("indices");
  if (has_choices) {
    std::vector<std::int32_t> theirs = answers.any_integers("indices", "N,G,n");
    const ChoiceTotals choices = judge_choices(input, reference, request, theirs);
    take(out, choices);
    const bool is_a_choice = !choices.first || choices.first->form.empty();
    if (is_a_choice && choices.ties + choices.wrong > 0 && answers.has("out")) {
      inputs.tensors["indices_in"] = tensor_of(theirs, {rows, input.dim("G"), answers.dim("n")});
      DoorRequest reuse = request;
      reuse.variant = "reuse";
      with_theirs = reference_of(inputs, input.file().source(), reuse);
      expected = &with_theirs.out;
    }
  }
  if (answers.has("out")) {
    const std::vector<double> theirs = answers.finite_floats<double>("out", "N,H,d");
    take(out, output_error(theirs, *expected, rows, tolerance_of(request.dtype)),
         expected == &with_theirs.out);
  }
  out.json["rows"] = rows;
  out.sentence = std::string("nsa_verify: ") + name_of(out.verdict) + out.sentence;
  return out;
}

}  // namespace versieve::engine
