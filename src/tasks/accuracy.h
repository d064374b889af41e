// Accuracy: counts the samples for which the classifier's largest output is the true class.
#pragma once

#include <cstdint>
#include <string>

#include "carillon/tasks/metric.h"

namespace carillon {

struct Accuracy {
  std::int64_t correct = 0;
  std::int64_t total = 0;

  double value() const { return static_cast<double>(correct) / static_cast<double>(total); }
  /// metrics.jsonl uses the name "precision" and TensorBoard "precision @ 1", as TensorFlow's tutorials do.
  Score score() const;
  /// "precision @ 1 = 0.984 (9840/10000)"
  std::string text() const;
};

}  // namespace carillon
