// Learning curves: the course of a training, read from its metrics.jsonl.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

namespace carillon {

struct CurvePoint {
  double step = 0.0, value = 0.0;
};

struct LearningCurves {
  /// A score of an evaluation: its field in metrics.jsonl, and its heading.
  struct Column {
    std::string_view field, heading;
  };
  static constexpr std::array<Column, 6> columns{{{"eval_precision", "Accuracy"},
                                                  {"eval_loss", "Loss"},
                                                  {"eval_top_5", "Top-5"},
                                                  {"eval_balanced_accuracy", "Balanced accuracy"},
                                                  {"eval_macro_f1", "Macro F1"},
                                                  {"eval_calibration_error", "Calibration error"}}};
  struct Evaluation {
    std::int64_t step = 0;
    std::array<std::optional<double>, columns.size()> scores = {};
  };

  std::vector<CurvePoint> loss;  ///< of the training, without L2 terms
  std::vector<CurvePoint> learning_rate;
  std::vector<Evaluation> evaluations;

  bool is_empty() const { return loss.empty() && evaluations.empty(); }
  /// The points of a score of the evaluations.
  std::vector<CurvePoint> of_column(std::size_t column) const;
};

/// The curves of `train_dir/metrics.jsonl`, in the order of the file; empty if there is no such file, or it cannot be
/// read. Lines that are damaged, and values that are not finite, are left out.
LearningCurves read_learning_curves(const std::filesystem::path& train_dir);

/// At most `count` points: means of neighbours.
std::vector<CurvePoint> thinned(const std::vector<CurvePoint>& points, std::size_t count);

}  // namespace carillon
