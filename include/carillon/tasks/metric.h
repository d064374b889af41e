// Metric: accumulates the outputs and targets of an evaluation and reports named scores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace carillon {

/// Two counts and their ratio, for example 9840 correct of 10000 in total.
struct Ratio {
  std::string part_name, whole_name;  ///< for example "correct" and "total"
  std::int64_t part = 0, whole = 0;

  /// NaN if both counts are 0.
  double value() const { return static_cast<double>(part) / static_cast<double>(whole); }
};

/// One result of an evaluation.
struct Score {
  std::string name;  ///< for example "accuracy"
  double value = 0.0;
  std::string log_name = {};                  ///< name in log lines and metrics.jsonl; empty: `name`
  std::string tag = {};                       ///< TensorBoard tag; empty: `log_name`
  std::optional<Ratio> ratio = std::nullopt;  ///< the counts from which `value` is computed, for logs and checkpoints

  const std::string& logged_as() const { return log_name.empty() ? name : log_name; }
  const std::string& tagged_as() const { return tag.empty() ? logged_as() : tag; }
};

/// Results for each output of the network, for reports: a class, a label or a number.
struct ScoreTable {
  std::vector<std::string> columns;       ///< names of the results, such as "precision"
  std::vector<std::vector<double>> rows;  ///< [outputs, columns]; NaN: there is no result
};

/// Each rank has its own metric. After an evaluation every rank makes a new metric and merges the contents of all
/// ranks' metrics into it, in rank order.
class Metric {
 public:
  virtual ~Metric() = default;
  /// Adds samples. Called once per batch. Callers do not pass the samples that only pad the last batch. `outputs`:
  /// [samples, output elements], row-major, finite. `targets`: [samples], each of TargetSpec::bytes() bytes.
  virtual void add(std::span<const float> outputs, std::span<const std::byte> targets) = 0;
  /// Returns the accumulated results of this metric as bytes, for merge() on every rank.
  virtual std::string contents() const = 0;
  /// Adds the contents() of a metric of any rank. Errors: failed (the bytes are invalid or from a different metric).
  virtual void merge(std::string_view contents) = 0;
  /// Returns all scores. One score must have the name Task::score. The names must not depend on the added samples.
  /// Programs also call this function without samples to get the names. Such a call must not fail, and its values may
  /// be NaN.
  virtual std::vector<Score> scores() const = 0;
  /// Returns one line for the log: "precision @ 1 = 0.984 (9840/10000)".
  virtual std::string text() const = 0;
  /// Returns other lines for the log. The log shows them before text(): "cross-entropy = 0.0514".
  virtual std::vector<std::string> other_texts() const { return {}; }
  /// Returns results for each output. By default, there are no columns.
  virtual ScoreTable table() const { return {}; }
};

using MakeMetric = std::function<std::unique_ptr<Metric>()>;

}  // namespace carillon
