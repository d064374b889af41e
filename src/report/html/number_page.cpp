#include "src/report/html/number_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "src/report/html/charts.h"
#include "src/report/html/table.h"

namespace carillon {
namespace {

constexpr ScoreText score_texts[] = {{"r2", "R2", "mean over the numbers; 1 is perfect, 0 is as good as the mean"},
                                     {"mae", "Mean absolute error", "mean over the numbers; lower is better"},
                                     {"rmse", "Root mean squared error", "mean over the numbers; lower is better"}};

/// In the unit of a number.
std::string number_text(double number) { return fmt::format("{:.5g}", number); }

std::string charts(const RegressionMetric& metric, std::span<const std::string> names) {
  std::string charts;
  std::vector<PredictedNumber> numbers(metric.samples().count());
  const std::size_t count = std::min(metric.numbers().size(), max_scatter_charts);
  for (std::size_t column = 0; column < count; ++column) {
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = {metric.target(i, column), metric.predicted(i, column)};
    }
    charts += scatter_chart(html_name(names, column), numbers);
  }
  return fmt::format("<div class=\"charts\">\n{}</div>\n", charts);
}

PageSection number_section(const RegressionMetric& metric, std::span<const std::string> names) {
  std::string rows = table_heading({"#No.", "Number", "#R2", "#Mean absolute error", "#Root mean squared error",
                                    "#Standard deviation of the true numbers"}) +
                     "<tbody>\n";
  for (std::size_t i = 0; i < metric.numbers().size(); ++i) {
    const NumberResult& number = metric.numbers()[i];
    rows += "<tr>" + number_cell(static_cast<std::int64_t>(i)) + name_cell(html_name(names, i)) +
            number_cell(std::optional(number.r2));
    for (const double value : {number.mae, number.rmse, number.deviation}) rows += number_cell(number_text(value));
    rows += "</tr>\n";
  }
  return {"numbers", "Numbers",
          "<p class=\"note\">A point is a record. On the dashed line, prediction and true number are equal.</p>\n" +
              charts(metric, names) + table_box("sort", "Numbers", rows + "</tbody>")};
}

}  // namespace

std::string number_page(const PageFacts& facts, const RegressionMetric& metric, std::span<const std::string> names) {
  const std::size_t count = metric.numbers().size();
  return html_page(facts,
                   {.outputs = count == 1 ? "1 number" : fmt::format("{} numbers", count),
                    .scores = score_texts,
                    .sections = {number_section(metric, names)},
                    .about_pictures = "As the network gets them. The error is in standard deviations of the true "
                                      "numbers; of several numbers, it is the root of the mean square."});
}

}  // namespace carillon
