// MetricsWriter: `metrics.jsonl`, one JSON object a line. Fields: docs/formats.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace carillon {

class MetricsWriter {
 public:
  /// Appends to `train_dir/metrics.jsonl`; a resumed run first drops the lines of steps >= `first_step`, and a cut last
  /// line, that the stopped run had written past its checkpoint. A log that can't be written is told to `warn` once,
  /// and training goes on.
  MetricsWriter(const std::filesystem::path& train_dir, std::int64_t first_step,
                std::function<void(const std::string&)> warn);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  /// Appends one line, at once; `record` is an object with a "step".
  void write(const nlohmann::json& record);

 private:
  std::unique_ptr<class AppendLog> log_;
};

}  // namespace carillon
