#include "engine/io/strict_json.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "engine/io/input_file.h"
#include "engine/io/utf8.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxJsonBytes = 64 << 20;  // a weight map of a million names fits
constexpr int kMaxJsonDepth = 32;

// A stretch of a file from an unknown hand, for a sentence: short, and ASCII alone.
std::string printable(std::string_view text) {
  constexpr std::size_t kMost = 60;
  std::string out;
  for (const char c : text.substr(text.size() > kMost ? text.size() - kMost : 0)) {
    char hex[8];
    std::snprintf(hex, sizeof hex, "\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
    out += c >= ' ' && c <= '~' ? std::string(1, c) : std::string(hex);
  }
  return out;
}

// Of the `count`-th byte that was read; a text of one line may be a line of its file.
std::string place_in(std::string_view text, std::size_t count) {
  const std::string_view before = text.substr(0, count == 0 ? 0 : count - 1);
  const std::size_t last = before.rfind('\n');
  const std::size_t column =
      last == std::string_view::npos ? before.size() + 1 : before.size() - last;
  const std::string line =
      "line " + std::to_string(1 + std::count(before.begin(), before.end(), '\n'));
  return (text.find('\n') == std::string_view::npos ? "" : line + ", ") + "column " +
         std::to_string(column);
}

// Builds the document from the parser's events, so that a repeated key is seen before it is lost.
class StrictBuilder final : public json::json_sax_t {
 public:
  StrictBuilder(std::string_view text, int max_depth, const std::string& source)
      : text_(text), max_depth_(max_depth), source_(source) {}

  bool null() override { return place(json()); }
  bool boolean(bool value) override { return place(value); }
  bool number_integer(number_integer_t value) override { return place(value); }
  bool number_unsigned(number_unsigned_t value) override { return place(value); }
  bool number_float(number_float_t value, const string_t&) override { return place(value); }
  bool string(string_t& value) override { return place(std::move(value)); }
  bool binary(binary_t&) override { refuse("holds binary data"); }
  bool start_object(std::size_t) override { return open(json::object()); }
  bool start_array(std::size_t) override { return open(json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (open_.back()->contains(name)) {
      refuse("the key '" + name + "' stands twice" + inside());
    }
    keys_.back() = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    const bool overflows = dynamic_cast<const json::out_of_range*>(&error) != nullptr;
    const bool ends = position == 0 || position > text_.size();
    const std::string key = path(keys_.size());
    refuse("is not valid JSON at " + place_in(text_, position) +
           (key.empty() ? "" : ", at or after the key '" + key + "'") + ": " +
           (overflows ? "the number " + printable(token) + " is beyond every number"
            : ends    ? "the text ends there"
                      : "'" + printable(text_.substr(position - 1, 1)) + "' is wrong there") +
           (is_utf8(text_) ? "" : " (the file is no UTF-8)"));
  }

  json take() { return std::move(root_); }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ExitCode::kBadInput, source_ + ": " + what);
  }
  json* append(json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    json& slot = parent[keys_.back()];
    slot = std::move(value);
    return &slot;
  }
  bool place(json value) {
    append(std::move(value));
    return true;
  }
  bool open(json container) {
    if (static_cast<int>(open_.size()) == max_depth_) {
      const std::string outer = path(keys_.size());
      refuse("is nested deeper than " + std::to_string(max_depth_) + " levels" +
             (outer.empty() ? "" : ", in '" + outer + "'"));
    }
    open_.push_back(append(std::move(container)));
    keys_.emplace_back();
    return true;
  }
  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }
  // The keys that lead to what is being filled, "rope_scaling.factor".
  std::string path(std::size_t depth) const {
    std::string out;
    for (std::size_t i = 0; i < depth; ++i) {
      out += (out.empty() || keys_[i].empty() ? "" : ".") + keys_[i];
    }
    return printable(out);
  }
  std::string inside() const {
    const std::string outer = path(keys_.size() - 1);
    return outer.empty() ? "" : " in '" + outer + "'";
  }

  std::string_view text_;
  int max_depth_;
  std::string source_;
  json root_;
  std::vector<json*> open_;        // from the root to the container being filled
  std::vector<std::string> keys_;  // the last key of each; empty in a list
};

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, int max_depth, const std::string& source) {
  // The parser would take it for the end.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    throw Error(ExitCode::kBadInput, source + ": is not valid JSON at " + place_in(text, zero + 1) +
                                         ": it holds a zero byte");
  }
  StrictBuilder builder(text, max_depth, source);
  json::sax_parse(text.begin(), text.end(), &builder);
  return builder.take();
}

std::string read_text_file(const std::filesystem::path& path, std::int64_t max_bytes) {
  InputFile file(path);
  if (file.size() > max_bytes) {
    throw Error(ExitCode::kBadInput, path.string() + ": is " + std::to_string(file.size()) +
                                         " bytes long, more than the " + std::to_string(max_bytes) +
                                         " allowed here");
  }
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read(text.data(), file.size());
  return text;
}

nlohmann::json read_json_object(const std::filesystem::path& path) {
  const std::string text = read_text_file(path, kMaxJsonBytes);
  refuse_pointer(text, path);
  json document = parse_strict_json(text, kMaxJsonDepth, path.string());
  if (!document.is_object()) {
    throw Error(ExitCode::kBadInput, path.string() + ": is not a JSON object");
  }
  return document;
}

}  // namespace versieve::engine
