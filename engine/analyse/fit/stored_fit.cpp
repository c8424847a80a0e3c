#include "engine/analyse/fit/stored_fit.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string_view>
#include <type_traits>

#include "engine/analyse/fit/fit_code.h"
#include "engine/analyse/fit/fit_fields.h"
#include "engine/io/atomic_file.h"
#include "model/words/error.h"

namespace versieve::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "versieve stored fits 1\n";
constexpr std::uint64_t kFnvBegin = 14695981039346656037ULL;

std::uint64_t hash_of(std::string_view bytes, std::uint64_t hash = kFnvBegin) {
  for (const char c : bytes) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  }
  return hash;
}

// Values as bytes, in the order of their fields. `Sink` takes them.
template <class Sink>
class Writer {
 public:
  explicit Writer(Sink& sink) : sink_(sink) {}

  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      sink_(std::string_view(reinterpret_cast<const char*>(&value), sizeof value));
    } else {
      visit_fields(*this, value);
    }
  }
  void put(const std::string& text) {
    put(text.size());
    sink_(text);
  }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) {
      put(*value);
    }
  }
  template <class T, std::size_t kCount>
  void put(const std::array<T, kCount>& values) {
    for (const T& value : values) {
      put(value);
    }
  }
  template <class T>
  void put(const std::vector<T>& values) {
    put(values.size());
    for (const T& value : values) {
      put(value);
    }
  }
  template <class K, class V>
  void put(const std::map<K, V>& values) {
    put(values.size());
    for (const auto& [key, value] : values) {
      put(key);
      put(value);
    }
  }

  Sink& sink_;
};

// The same backwards. After a byte that is not there everything is zero and `is_good` false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool is_good() const { return good_; }
  std::size_t left() const { return bytes_.size(); }

  template <class... T>
  void operator()(T&... values) {
    (take(values), ...);
  }
  std::string_view take_bytes(std::size_t count) {
    good_ = good_ && count <= bytes_.size();
    const std::string_view taken = good_ ? bytes_.substr(0, count) : std::string_view();
    bytes_.remove_prefix(taken.size());
    return taken;
  }

 private:
  template <class T>
  void take(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      const std::string_view bytes = take_bytes(sizeof value);
      if (good_) {
        std::memcpy(&value, bytes.data(), sizeof value);
      }
    } else {
      visit_fields(*this, value);
    }
  }
  // Every value takes a byte at least, so that a count that was never written ends here.
  std::size_t take_count() {
    std::size_t count = 0;
    take(count);
    good_ = good_ && count <= bytes_.size();
    return good_ ? count : 0;
  }
  void take(std::string& text) { text = take_bytes(take_count()); }
  template <class T>
  void take(std::optional<T>& value) {
    bool has = false;
    take(has);
    if (has) {
      take(value.emplace());
    }
  }
  template <class T, std::size_t kCount>
  void take(std::array<T, kCount>& values) {
    for (T& value : values) {
      take(value);
    }
  }
  template <class T>
  void take(std::vector<T>& values) {
    values.resize(take_count());
    for (T& value : values) {
      take(value);
    }
  }
  template <class K, class V>
  void take(std::map<K, V>& values) {
    for (std::size_t i = take_count(); i > 0; --i) {
      K key{};
      take(key);
      take(values[key]);
    }
  }

  std::string_view bytes_;
  bool good_ = true;
};

template <class... T>
std::string bytes_of(const T&... values) {
  std::string bytes;
  const auto append = [&bytes](std::string_view more) { bytes += more; };
  Writer<decltype(append)> writer(append);
  writer(values...);
  return bytes;
}

struct Entry {
  std::uint64_t key = 0;
  std::string_view bytes;
};

// Up to the first that is not whole.
std::vector<Entry> entries_of(std::string_view file) {
  std::vector<Entry> entries;
  if (!file.starts_with(kMagic)) {
    return entries;
  }
  Reader reader(file.substr(kMagic.size()));
  while (reader.left() > 0) {
    Entry entry;
    std::uint64_t sum = 0;
    std::size_t size = 0;
    reader(entry.key, sum, size);
    entry.bytes = reader.take_bytes(size);
    if (!reader.is_good() || hash_of(entry.bytes) != sum) {
      break;
    }
    entries.push_back(entry);
  }
  return entries;
}

std::string file_of(std::uint64_t key, const std::string& bytes, const std::vector<Entry>& older) {
  std::string file(kMagic);
  file += bytes_of(key, hash_of(bytes), bytes);
  std::size_t kept = 1;
  for (const Entry& entry : older) {
    if (entry.key != key && kept < kFitsKept) {
      file += bytes_of(entry.key, hash_of(entry.bytes), std::string(entry.bytes));
      ++kept;
    }
  }
  return file;
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The user's, by the rules of the XDG base directories; empty if there is none.
fs::path cache_folder() {
  const char* const cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache == '/') {
    return fs::path(cache) / "versieve";
  }
  const char* const home = std::getenv("HOME");
  return home != nullptr && *home == '/' ? fs::path(home) / ".cache" / "versieve" : fs::path();
}

// Where files are a package's: what a program leaves there stays when the package goes.
bool is_packaged(const fs::path& database) {
  std::error_code failed;
  return fs::weakly_canonical(database, failed).string().starts_with("/usr/");
}

}  // namespace

std::uint64_t fit_key(const FitInputs& inputs, const FitOptions& options) {
  std::uint64_t hash = hash_of(fit_code());
  const auto add = [&hash](std::string_view bytes) { hash = hash_of(bytes, hash); };
  Writer<decltype(add)> writer(add);
  writer(inputs.points, inputs.device, inputs.hardware, inputs.runs, options.holdout,
         options.leave_out_regimes, options.prior != nullptr, options.left_out != nullptr);
  if (options.prior != nullptr) {
    writer(*options.prior);
  }
  if (options.left_out != nullptr) {
    writer(*options.left_out);
  }
  return hash;
}

std::vector<fs::path> fit_files(const fs::path& database) {
  std::vector<fs::path> files = {fs::path(database) += ".fit"};
  const fs::path folder = cache_folder();
  std::error_code failed;
  const fs::path whole = fs::weakly_canonical(database, failed);
  if (!folder.empty() && !failed) {
    files.push_back(folder / (std::to_string(hash_of(whole.string())) + ".fit"));
  }
  return files;
}

std::optional<FitReport> find_fit(const fs::path& database, std::uint64_t key) {
  for (const fs::path& path : fit_files(database)) {
    const std::string file = content_of(path);
    for (const Entry& entry : entries_of(file)) {
      if (entry.key == key) {
        FitReport report;
        Reader reader(entry.bytes);
        reader(report);
        if (reader.is_good() && reader.left() == 0) {
          return report;
        }
      }
    }
  }
  return {};
}

void keep_fit(const fs::path& database, std::uint64_t key, const FitReport& report) {
  const std::string bytes = bytes_of(report);
  const bool beside = !is_packaged(database);
  for (const fs::path& path : fit_files(database)) {
    if (!beside && path.parent_path() != cache_folder()) {
      continue;
    }
    try {
      if (path.parent_path() == cache_folder()) {
        std::error_code exists;
        fs::create_directories(path.parent_path(), exists);
      }
      const std::string file = content_of(path);
      write_file_atomically(path, file_of(key, bytes, entries_of(file)));
      return;
    } catch (const Error&) {
      continue;  // the next place; nothing is kept where there is none
    }
  }
}

FitReport stored_or_new_fit(const fs::path& database, const FitInputs& inputs,
                            const FitOptions& options, bool afresh) {
  const std::uint64_t key = fit_key(inputs, options);
  if (std::optional<FitReport> known = afresh ? std::nullopt : find_fit(database, key)) {
    return *std::move(known);
  }
  FitReport report =
      fit_cost_model(inputs.points, inputs.device, inputs.hardware, inputs.runs, options);
  keep_fit(database, key, report);
  return report;
}

}  // namespace versieve::engine
