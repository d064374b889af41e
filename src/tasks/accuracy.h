// Accuracy: the number of samples of which a classifier's largest output is the true class.
#pragma once

#include <cstdint>
#include <string>

#include "carillon/tasks/metric.h"

namespace carillon {

struct Accuracy {
  std::int64_t correct = 0;
  std::int64_t total = 0;

  double value() const { return static_cast<double>(correct) / static_cast<double>(total); }
  /// Logs and checkpoints call it precision, as TensorFlow's tutorials do.
  Score score() const;
  /// "precision @ 1 = 0.984 (9840/10000)"
  std::string text() const;
};

}  // namespace carillon
