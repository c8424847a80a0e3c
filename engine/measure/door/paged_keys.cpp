#include "engine/measure/door/paged_keys.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "engine/io/safetensors_bytes.h"

namespace versieve::engine {
namespace {

constexpr const char* kTable = "page_table";
constexpr const char* kPlain[] = {"k", "v"};
constexpr const char* kPaged[] = {"k_pages", "v_pages"};

struct Layout {
  std::vector<std::int32_t> table;
  std::int64_t context_len = 0;
  bool heads_first = false;  // HND
};

Layout layout_of(DoorInput& input) {
  Layout out{.table = input.any_integers(kTable, "T"),
             .context_len = input.integer_key("context_len", 0, INT32_MAX)};
  const auto layout = input.file().metadata().find("page_layout");
  if (layout != input.file().metadata().end()) {
    out.heads_first = layout->second == "HND";
    if (!out.heads_first && layout->second != "NHD") {
      input.refuse("the metadata key 'page_layout' is NHD or HND, not '" + layout->second + "'");
    }
  }
  return out;
}

// Pages of one tensor; a row is what a token has of one KV head.
class Pages {
 public:
  Pages(const DoorInput& input, const std::string& name, const Layout& layout)
      : input_(input), view_(*input.file().find(name)), layout_(layout) {
    if (view_.shape.size() != 4 || bits_of(view_.type) % 8 != 0) {
      input.refuse("tensor '" + name + "' has the shape " + text_of(view_.shape) + ", but [" +
                   (layout.heads_first ? "P,G,page,d" : "P,page,G,d") + "] is needed");
    }
    pages_ = view_.shape[0];
    page_ = view_.shape[layout.heads_first ? 2 : 1];
    heads_ = view_.shape[layout.heads_first ? 1 : 2];
    row_bytes_ = static_cast<std::size_t>(view_.shape[3] * bits_of(view_.type) / 8);
    if (page_ < 1) {
      input.refuse("pages of '" + name + "' hold no token");
    }
    check_table();
  }

  Tensor contiguous() const {
    Tensor out{.type = view_.type, .shape = {layout_.context_len, heads_, view_.shape[3]}};
    out.bytes.resize(static_cast<std::size_t>(layout_.context_len * heads_) * row_bytes_);
    std::size_t to = 0;
    for (std::int64_t token = 0; token < layout_.context_len; ++token) {
      for (std::int64_t head = 0; head < heads_; ++head, to += row_bytes_) {
        std::copy_n(view_.bytes.begin() + from(token, head), row_bytes_,
                    out.bytes.begin() + static_cast<std::ptrdiff_t>(to));
      }
    }
    return out;
  }

 private:
  void check_table() const {
    const std::int64_t needed = (layout_.context_len + page_ - 1) / page_;
    const auto entries = static_cast<std::int64_t>(layout_.table.size());
    if (entries < needed) {
      input_.refuse("'page_table' has " + std::to_string(entries) + " entries, but " +
                    std::to_string(layout_.context_len) + " tokens in pages of " +
                    std::to_string(page_) + " need " + std::to_string(needed));
    }
    std::vector<std::int64_t> entry(static_cast<std::size_t>(pages_), -1);  // that named it
    for (std::int64_t i = 0; i < needed; ++i) {
      const std::int64_t page = layout_.table[static_cast<std::size_t>(i)];
      if (page < 0 || page >= pages_) {
        input_.refuse("'page_table' names page " + std::to_string(page) + " at entry " +
                      std::to_string(i) + ", but there are " + std::to_string(pages_));
      }
      std::int64_t& first = entry[static_cast<std::size_t>(page)];
      if (first >= 0) {
        input_.refuse("'page_table' names page " + std::to_string(page) + " at entries " +
                      std::to_string(first) + " and " + std::to_string(i) +
                      ": one sequence's later tokens would have overwritten its earlier ones");
      }
      first = i;
    }
  }
  std::ptrdiff_t from(std::int64_t token, std::int64_t head) const {
    const std::int64_t page = layout_.table[static_cast<std::size_t>(token / page_)];
    const std::int64_t at = token % page_;
    const std::int64_t row = layout_.heads_first ? (page * heads_ + head) * page_ + at
                                                 : (page * page_ + at) * heads_ + head;
    return static_cast<std::ptrdiff_t>(static_cast<std::size_t>(row) * row_bytes_);
  }

  const DoorInput& input_;
  const TensorView& view_;
  const Layout& layout_;
  std::int64_t pages_ = 0, page_ = 0, heads_ = 0;
  std::size_t row_bytes_ = 0;
};

bool reads(const DoorFamily& family, std::string_view name) {
  return std::any_of(family.inputs.begin(), family.inputs.end(),
                     [&](const DoorTensor& tensor) { return name == tensor.name; });
}

}  // namespace

bool takes_pages(const DoorFamily& family) {
  return std::any_of(family.inputs.begin(), family.inputs.end(), [](const DoorTensor& tensor) {
    return std::string_view(tensor.name) == "k" && std::string_view(tensor.shape) == "L,G,d";
  });
}

SafetensorsFile with_contiguous_keys(SafetensorsFile file, const DoorFamily& family) {
  DoorInput input(file);
  if (!input.has(kTable)) {
    if (input.has(kPaged[0]) || input.has(kPaged[1])) {
      input.refuse("tensor 'page_table' is missing, without which pages are in no order");
    }
    return file;
  }
  const Layout layout = layout_of(input);
  TensorSet set{.tensors = {}, .metadata = file.metadata()};
  for (const auto& [name, view] : file.tensors()) {
    if (name != kTable && name != kPaged[0] && name != kPaged[1]) {
      set.tensors[name] = {
          .type = view.type, .shape = view.shape, .bytes = {view.bytes.begin(), view.bytes.end()}};
    }
  }
  for (std::size_t i = 0; i < std::size(kPaged); ++i) {
    if (!input.has(kPaged[i])) {
      if (reads(family, kPlain[i]) && !input.has(kPlain[i])) {
        input.refuse(std::string("tensor '") + kPaged[i] + "' is missing");
      }
      continue;
    }
    if (input.has(kPlain[i])) {
      input.refuse(std::string("has both '") + kPlain[i] + "' and '" + kPaged[i] +
                   "': which holds the keys?");
    }
    set.tensors[kPlain[i]] = Pages(input, kPaged[i], layout).contiguous();
  }
  return SafetensorsFile::parse(safetensors_bytes(set), file.source() + ", its pages side by side");
}

}  // namespace versieve::engine
