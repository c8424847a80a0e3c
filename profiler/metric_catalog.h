// What CUPTI knows about a chip's metrics, asked on the host alone: which names exist, what they
// mean, how many passes a set needs. Works with no GPU and no driver, so metric sets are tested in
// CI. In a build without CUPTI, or where the library is missing, the constructor says so.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace versieve::profiler {

struct MetricProperties {
  std::string description;
  std::string hardware_unit;
  std::string unit;
};

class MetricCatalog {
 public:
  // Why no catalogue can be had here, or an empty text.
  static std::string missing_because();

  // `chip` as CUPTI names it ("GH100"); `availability` is a device's counter availability image,
  // empty for the chip as such. Throws Error(kEnvironment).
  explicit MetricCatalog(const std::string& chip, std::vector<std::uint8_t> availability = {});
  ~MetricCatalog();
  MetricCatalog(MetricCatalog&&) noexcept;
  MetricCatalog& operator=(MetricCatalog&&) noexcept;

  // None: the chip has no such metric (a name needs its rollup: "dram__bytes_read.sum").
  std::optional<MetricProperties> properties(const std::string& metric) const;
  std::vector<std::string> unknown_of(const std::vector<std::string>& metrics) const;

  // How to collect the set. Throws Error(kEnvironment) naming unknown metrics.
  std::vector<std::uint8_t> config_image(const std::vector<std::string>& metrics) const;
  std::int64_t pass_count(const std::vector<std::string>& metrics) const;

  // Values of one range of a decoded counter image, in the order of `metrics`.
  std::vector<double> evaluate(const std::vector<std::uint8_t>& counter_image,
                               std::size_t range_index,
                               const std::vector<std::string>& metrics) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace versieve::profiler
