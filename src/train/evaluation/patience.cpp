#include "src/train/evaluation/patience.h"

#include <cmath>

namespace carillon {

void Patience::add(const StepScore& evaluation) {
  const double value = evaluation.score.value;
  const bool is_better = best_ ? score_->is_better(evaluation.score, best_->score) : !std::isnan(value);
  since_best_ = is_better ? 0 : since_best_ + 1;
  if (is_better) best_ = evaluation;
}

}  // namespace carillon
