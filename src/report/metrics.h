// `metrics.jsonl`, one JSON object a line, written and asked. Fields: docs/formats.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/report/accuracy.h"
#include "src/report/field.h"

namespace carillon {

class MetricsWriter {
 public:
  /// Appends to `train_dir/metrics.jsonl`; a resumed run first drops the lines of steps >= `first_step`, and a cut last
  /// line, that the stopped run had written past its checkpoint. A log that can't be written is told to `warn` once,
  /// and training goes on; where those lines cannot be dropped, without metrics.
  MetricsWriter(const std::filesystem::path& train_dir, std::int64_t first_step,
                std::function<void(const std::string&)> warn);
  ~MetricsWriter();
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  /// Appends one line, at once; a "step" is among the fields.
  void write(const std::vector<Field>& fields);

 private:
  std::unique_ptr<class AppendLog> log_;
};

/// The evaluation of `step` that `train_dir/metrics.jsonl` tells of; none where it cannot be read.
std::optional<Accuracy> logged_evaluation(const std::filesystem::path& train_dir, std::int64_t step);

}  // namespace carillon
