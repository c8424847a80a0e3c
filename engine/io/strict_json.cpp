#include "engine/io/strict_json.h"

#include <vector>

#include "engine/io/input_file.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxJsonBytes = 64 << 20;  // a weight map of a million names fits
constexpr int kMaxJsonDepth = 32;

// Builds the document from the parser's events, so that a repeated key is seen before it is lost.
class StrictBuilder final : public json::json_sax_t {
 public:
  StrictBuilder(int max_depth, const std::string& source)
      : max_depth_(max_depth), source_(source) {}

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
      refuse("the key '" + name + "' stands twice");
    }
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    refuse("is not valid JSON at byte " + std::to_string(position));
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
    json& slot = parent[key_];
    slot = std::move(value);
    return &slot;
  }
  bool place(json value) {
    append(std::move(value));
    return true;
  }
  bool open(json container) {
    if (static_cast<int>(open_.size()) == max_depth_) {
      refuse("is nested deeper than " + std::to_string(max_depth_) + " levels");
    }
    open_.push_back(append(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  int max_depth_;
  std::string source_;
  json root_;
  std::vector<json*> open_;  // from the root to the container being filled
  std::string key_;
};

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, int max_depth, const std::string& source) {
  if (text.find('\0') != std::string_view::npos) {  // the parser would take it for the end
    throw Error(ExitCode::kBadInput, source + ": is not valid JSON: it holds a zero byte");
  }
  StrictBuilder builder(max_depth, source);
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
  json document = parse_strict_json(text, kMaxJsonDepth, path.string());
  if (!document.is_object()) {
    throw Error(ExitCode::kBadInput, path.string() + ": is not a JSON object");
  }
  return document;
}

}  // namespace versieve::engine
