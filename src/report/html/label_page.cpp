#include "src/report/html/label_page.h"

#include <fmt/format.h>

#include <cmath>

#include "src/report/html/table.h"

namespace carillon {
namespace {

constexpr ScoreText score_texts[] = {
    {"mean_average_precision", "Mean average precision", "mean area below the precision-recall curves"},
    {"macro_f1", "Macro F1", "mean F1 of the labels at probability 0.5"},
    {"micro_f1", "Micro F1", "F1 of all labels together at probability 0.5"},
    {"binary_cross_entropy", "Binary cross-entropy", "mean loss; lower is better"}};

PageSection label_section(const ScoreTable& table, std::span<const std::string> names) {
  std::string rows = table_heading({"#No.", "Label", "#Records", "#Predicted", "#Correct", "#Precision", "#Recall",
                                    "#F1", "#Average precision", "#Best threshold", "#F1 there"}) +
                     "<tbody>\n";
  constexpr std::size_t count_columns = 3;
  for (std::size_t label = 0; label < table.rows.size(); ++label) {
    rows += "<tr>" + number_cell(static_cast<std::int64_t>(label)) + name_cell(html_name(names, label));
    for (std::size_t column = 0; column < table.columns.size(); ++column) {
      const double value = table.rows[label][column];
      rows += column < count_columns ? number_cell(std::llround(value)) : number_cell(std::optional(value));
    }
    rows += "</tr>\n";
  }
  return {
      "labels", "Labels",
      "<p class=\"note\">A label is predicted if its probability is at least 0.5. Precision: share of the "
      "predictions of a label that are correct. Recall: share of its records that are found. F1: their harmonic "
      "mean. Average precision: area below the precision-recall curve. Best threshold: probability with the highest "
      "F1 on these records.</p>\n" +
          table_box("sort", "Labels", rows + "</tbody>")};
}

}  // namespace

std::string label_page(const PageFacts& facts, const MultilabelMetric& metric, std::span<const std::string> names) {
  return html_page(facts, {.outputs = fmt::format("{} labels", metric.labels().size()),
                           .scores = score_texts,
                           .sections = {label_section(metric.table(), names)},
                           .about_pictures = "As the network gets them, with their loss: the mean cross-entropy of "
                                             "their labels. ✓ all labels right, ✗ a label wrong."});
}

}  // namespace carillon
