// Pages of labels and of numbers.
#include <gmock/gmock.h>

#include <array>

#include "src/report/html/label_page.h"
#include "src/report/html/number_page.h"
#include "tests/report/html/page_facts.h"

namespace carillon::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<std::string> names{"<sky>", "sea"};

std::string cells(const std::vector<std::string>& values) {
  std::string row;
  for (const std::string& value : values) row += "<td class=\"n\">" + value + "</td>";
  return row;
}

TEST(LabelPage, TablesTheResultsOfEachLabel) {
  MultilabelMetric metric(2);
  const std::array<float, 6> logits{1.0f, -1.0f, 2.0f, -2.0f, -1.0f, -3.0f};
  const std::array<std::byte, 6> targets{std::byte{1}, {}, {}, {}, std::byte{1}, {}};
  metric.add(logits, targets);
  PageFacts facts = page_facts();
  facts.scores = metric.scores();
  const std::string text = label_page(facts, metric, names);
  const Markup page(text);
  EXPECT_EQ(page.fault, "");
  EXPECT_EQ(count(page, "section"), 5);
  EXPECT_THAT(page.text, AllOf(HasSubstr("2 labels"), HasSubstr("Mean average precision0.5833")));
  EXPECT_EQ(count(page, "dt"), std::ssize(facts.scores)) << "a tile for each score";
  EXPECT_THAT(text, HasSubstr("<bdi>&lt;sky&gt;</bdi></td>" +
                              cells({"2", "2", "1", "0.5000", "0.5000", "0.5000", "0.5833", "0.2689", "0.8000"})));
  EXPECT_THAT(text, HasSubstr("<bdi>sea</bdi></td>" + cells({"0", "0", "0", "–", "–", "0.0000", "–", "–", "–"})));
}

TEST(NumberPage, ChartsAndTablesEachNumber) {
  RegressionMetric metric({{.mean = 10.0, .deviation = 2.0}, {}});
  const std::array<float, 4> outputs{1.0f, 5.0f, -1.0f, 5.0f}, targets{0.0f, 5.0f, -2.0f, 5.0f};
  metric.add(outputs, std::as_bytes(std::span(targets)));
  PageFacts facts = page_facts();
  facts.scores = metric.scores();
  const std::string text = number_page(facts, metric, names);
  const Markup page(text);
  EXPECT_EQ(page.fault, "");
  EXPECT_EQ(count(page, "svg"), 4) << "loss, learning rate, two numbers";
  EXPECT_EQ(count(page, "circle"), 4);
  EXPECT_EQ(count(page, "dt"), std::ssize(facts.scores)) << "a tile for each score";
  EXPECT_THAT(page.text, HasSubstr("2 numbers"));
  EXPECT_THAT(text, HasSubstr("<bdi>&lt;sky&gt;</bdi></td>" + cells({"0.0000", "2", "2", "2"})));
  EXPECT_THAT(text, HasSubstr("<bdi>sea</bdi></td>" + cells({"1.0000", "0", "0", "0"})));
}

TEST(NumberPage, IsBoundedWithManyRecordsAndNumbers) {
  RegressionMetric metric(std::vector<NumberScale>(100));
  std::vector<float> samples(100 * 4000);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = static_cast<float>(i / 100);
  metric.add(samples, std::as_bytes(std::span(samples)));
  const std::string text = number_page(page_facts(), metric, {});
  EXPECT_LT(text.size(), std::size_t{10} << 20);
  const Markup page(text);
  EXPECT_EQ(page.fault, "");
  EXPECT_THAT(text, HasSubstr(R"(cx="58.0" cy="338.0")")) << "the first record";
  EXPECT_EQ(count(page, "svg"), 2 + static_cast<std::ptrdiff_t>(max_scatter_charts));
  EXPECT_THAT(page.text, HasSubstr("(1334 of 4000 records)"));
}

}  // namespace
}  // namespace carillon::testing
