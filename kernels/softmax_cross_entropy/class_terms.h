// Class terms: the contributions of one class to the loss of a row and to the gradient of this loss, with class weights
// or focal loss.
//
//   f(p) = -(1 - p)^gamma log p            p: the probability of the class
//   h(p) = -p f'(p) = (1 - p)^gamma - gamma p (1 - p)^(gamma - 1) log p
//
// f and h are finite for every p that a softmax of finite logits has. At p = 1, -log p / (1 - p) is taken as its limit
// 1, so that h exists for gamma < 1 too. At p = 0, log p comes from the logits, and p log p is 0.
#pragma once

#include <cmath>

#include "carillon/core/host_device.h"

namespace carillon {

/// One class of a row of logits z.
struct ClassLogit {
  double shifted = 0.0;      ///< z - max(z)
  double exponential = 0.0;  ///< exp(z - max(z)): exactly 1 for the largest logit
  double sum = 0.0;          ///< sum over the row of exp(z - max(z)), summed in double precision
  double log_sum = 0.0;      ///< log(sum)

  CARILLON_HOST_DEVICE double probability() const { return exponential / sum; }
  /// 1 - probability. For a probability above 1/2, which only the largest logit can have, this loses no digits.
  CARILLON_HOST_DEVICE double rest() const { return (sum - exponential) / sum; }
};

struct ClassTerms {
  double loss = 0.0;   ///< f(p)
  double slope = 0.0;  ///< h(p)
};

CARILLON_HOST_DEVICE inline ClassTerms class_terms(const ClassLogit& logit, double gamma) {
  const double minus_log = logit.log_sum - logit.shifted;
  if (gamma == 0.0) return {minus_log, 1.0};
  const double rest = logit.rest(), factor = std::pow(rest, gamma);
  const double ratio = rest > 0.0 ? minus_log / rest : 1.0;
  return {factor * minus_log, factor * (1.0 + gamma * logit.probability() * ratio)};
}

/// The gradient of a row's loss with respect to the logit of one class. `own_slope`: the class's target share times its
/// weight times h. `row_slope`: the sum of `own_slope` over the row.
CARILLON_HOST_DEVICE inline double class_gradient(const ClassLogit& logit, double own_slope, double row_slope) {
  return logit.probability() * (row_slope - own_slope) - own_slope * logit.rest();
}

}  // namespace carillon
