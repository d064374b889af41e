// Accuracy: how many records of a data set a model's largest logit names rightly.
#pragma once

#include <cstdint>
#include <string>

namespace carillon {

/// TensorFlow's word for accuracy; that of numbers is Arithmetic.
struct Accuracy {
  std::int64_t correct = 0;
  std::int64_t total = 0;
  double value() const { return static_cast<double>(correct) / static_cast<double>(total); }
  /// "precision @ 1 = 0.984 (9840/10000)"
  std::string text() const;
};

}  // namespace carillon
