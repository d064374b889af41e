// Learning curves: the losses and scores of a training by step, read from its metrics.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace carillon {

struct CurvePoint {
  double step = 0.0, value = 0.0;
};

struct LearningCurves {
  struct Evaluation {
    std::int64_t step = 0;
    std::map<std::string, double, std::less<>> scores = {};  ///< by their names in logs (Score::logged_as)
  };

  std::vector<CurvePoint> loss;  ///< training loss without L2; including L2 if a line lacks the task's loss
  std::vector<CurvePoint> learning_rate;
  std::vector<Evaluation> evaluations;

  bool is_empty() const { return loss.empty() && evaluations.empty(); }
  /// The points of the evaluation score with this name.
  std::vector<CurvePoint> of_score(std::string_view logged_name) const;
};

/// Reads the curves from `train_dir/metrics.jsonl`, in the order of the file. Returns empty curves if the file is
/// missing or cannot be read. `loss_name`: Task::loss_name. Skips damaged lines and values that are not finite. If the
/// file has several evaluations of a step, only the last one counts.
LearningCurves read_learning_curves(const std::filesystem::path& train_dir, std::string_view loss_name);

/// Reduces a curve to at most `count` points: each new point is the mean of neighbouring points.
std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, std::size_t count);

}  // namespace carillon
