#include "src/report/html_page.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>

#include "src/tasks/classification.h"
#include "src/tasks/classification_metric.h"
#include "tests/report/page_facts.h"
#include "tests/support/markup.h"

namespace carillon::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

/// The results of an evaluation, and the page that shows them.
struct Case {
  Predictions predictions;
  Calibration calibration;
  std::vector<std::string> names = {};
  PageFacts facts = page_facts();

  Case(std::size_t classes, std::size_t samples) : predictions{.class_count = classes} {
    std::uint32_t state = 1;
    const auto draw = [&] { return (state = state * 1664525 + 1013904223) >> 8; };
    std::int64_t correct = 0;
    for (std::size_t i = 0; i < samples; ++i) {
      Prediction& sample = predictions.samples.emplace_back();
      sample.label = static_cast<std::int32_t>(draw() % classes);
      const bool is_right = draw() % 4 > 0;
      sample.classes[0] = is_right ? sample.label : static_cast<std::int32_t>(draw() % classes);
      sample.probabilities[0] = (1.0 + draw() % 1000) / 1001.0;
      calibration.add(sample.confidence(), !sample.is_mistake());
      correct += sample.is_mistake() ? 0 : 1;
    }
    const Accuracy accuracy{correct, static_cast<std::int64_t>(samples)};
    facts.record_count = samples;
    facts.scores = {accuracy.score(),
                    {.name = "cross_entropy", .value = 0.5, .log_name = "loss"},
                    {.name = "top_5", .value = 0.987654}};
    for (int step = 99; step < 1000; step += 100) {
      facts.curves.evaluations.push_back({step, {{"precision", 0.5 + step / 3000.0}, {"loss", 1.0}}});
    }
  }

  std::string page() const {
    std::vector<ClassCounts> classes(predictions.class_count);
    for (const Prediction& sample : predictions.samples) {
      classes[static_cast<std::size_t>(sample.label)].support += 1;
      classes[static_cast<std::size_t>(sample.predicted())].predicted += 1;
      if (!sample.is_mistake()) classes[static_cast<std::size_t>(sample.label)].correct += 1;
    }
    return class_page(facts, {predictions.samples, classes, calibration, names});
  }
};

TEST(ClassPage, IsWellFormedAndSmallWithAnyNumberOfClasses) {
  for (const std::size_t classes : {std::size_t{1}, std::size_t{2}, std::size_t{10}, std::size_t{1000}}) {
    const Case made(classes, 5000);
    const std::string text = made.page();
    const Markup page(text);
    EXPECT_EQ(page.fault, "") << classes;
    EXPECT_LT(text.size(), std::size_t{10} << 20) << classes;
    EXPECT_THAT(page.text, HasSubstr("runs/a/model.ckpt-7.h5: moving averages at step 700, 5000 records"));
    EXPECT_EQ(count(page, "section"), 7) << classes;
    EXPECT_EQ(count(page, "svg"), 4) << classes;
    EXPECT_EQ(made.page(), text);
  }
}

TEST(ClassPage, ShowsAllScoresOfAClassification) {
  Case made(10, 100);
  made.facts.scores = classification_task({.classes = 10}).make_metric()->scores();
  EXPECT_EQ(count(Markup(made.page()), "dt"), std::ssize(made.facts.scores));
}

/// The page must contain all resources that it uses, and its content security policy must forbid all other resources.
TEST(ClassPage, UsesNoNetwork) {
  const std::string text = Case(10, 500).page();
  for (const char* const reference : {"http:", "https:", "url(", "@import", "<link", "<iframe", "src=\"/"}) {
    EXPECT_THAT(text, Not(HasSubstr(reference)));
  }
  EXPECT_THAT(Markup(text).values, Contains(HasSubstr("default-src 'none'; img-src data:")));
  const auto is_address = [](const std::string& value) { return value.starts_with("data:image/jpeg;base64,/9j/"); };
  EXPECT_EQ(std::ranges::count_if(Markup(text).values, is_address), 48);
}

TEST(ClassPage, ShowsNamesAsTheyAre) {
  const std::string name = "<b>&\"'</script>", hidden = "a\u202Eb\x01\xFF\uFFFE";
  Case made(2, 100);
  made.names = {name, hidden};
  made.facts.network.model = made.facts.network.checkpoint = made.facts.version = name;
  made.facts.records = {name};
  made.facts.options = {{name, name}};
  for (ShownPictures& list : made.facts.pictures) {
    for (ShownPrediction& one : list.shown) one.truth = one.predicted = one.origin = name;
  }
  const std::string text = made.page();
  const Markup page(text);
  EXPECT_EQ(page.fault, "");
  EXPECT_EQ(count(page, "script"), 1);
  EXPECT_EQ(count(page, "b"), 4) << "only those of the charts";
  EXPECT_THAT(page.text, AllOf(HasSubstr(name), HasSubstr("a\\xe2\\x80\\xaeb\\x01\\xff\\xef\\xbf\\xbe")));
  EXPECT_THAT(page.values, Contains(name));
}

TEST(ClassPage, CountsTheRecordsByClass) {
  Case made(3, 0);
  const std::pair<int, int> samples[] = {{0, 0}, {0, 0}, {0, 2}, {2, 2}, {2, 0}, {0, 2}};
  for (const auto& [label, predicted] : samples) {
    Prediction& sample = made.predictions.samples.emplace_back();
    sample.label = label;
    sample.classes[0] = predicted;
    sample.probabilities[0] = 0.5;
  }
  made.names = {"ant", "bee", "cow"};
  const std::string text = made.page();
  EXPECT_THAT(text,
              HasSubstr("<th scope=\"row\" title=\"ant\"><bdi>ant</bdi></th><td class=\"t\" style=\"--s:0.33\">2</td>"
                        "<td class=\"z\">0</td><td class=\"f\" style=\"--s:0.33\">2</td></tr>"));
  const auto cells = [](const std::vector<std::string>& values) {
    std::string row;
    for (const std::string& value : values) row += "<td class=\"n\">" + value + "</td>";
    return row;
  };
  const auto name = [](const std::string& of) { return "<td class=\"name\"><bdi>" + of + "</bdi></td>"; };
  EXPECT_THAT(text, HasSubstr(cells({"0"}) + name("ant") + cells({"4", "3", "2", "0.6667", "0.5000", "0.5714"})));
  EXPECT_THAT(text, HasSubstr(cells({"1"}) + name("bee") + cells({"0", "0", "0", "–", "–", "–"})));
  EXPECT_THAT(text, HasSubstr(name("ant") + name("cow") + cells({"2", "50.00 %"}) + "</tr>\n<tr>" + name("cow") +
                              name("ant") + cells({"1", "50.00 %"})));
}

TEST(ClassPage, ShowsTheMostConfusedOfManyClasses) {
  Case made(1000, 0);
  for (std::int32_t label = 0; label < 1000; ++label) {
    Prediction& sample = made.predictions.samples.emplace_back();
    sample.label = label;
    sample.classes[0] = label >= 500 && label < 530 ? 7 : label;
    sample.probabilities[0] = 1.0;
  }
  const std::string text = made.page();
  EXPECT_THAT(text, HasSubstr("25 of 1000 classes, from the most confused pairs"));
  EXPECT_THAT(text, HasSubstr("<th scope=\"row\" title=\"7\">"));
  EXPECT_THAT(text, HasSubstr("<th scope=\"row\" title=\"523\">"));
  EXPECT_THAT(text, Not(HasSubstr("<th scope=\"row\" title=\"524\">")));
  EXPECT_THAT(text, HasSubstr("<td class=\"f\" style=\"--s:0.55\">1</td>"));
}

TEST(ClassPage, SaysThatThereAreNoMistakesOrNoCurves) {
  Case made(2, 0);
  made.predictions.samples.emplace_back().probabilities[0] = 1.0;
  made.facts.curves = {};
  made.facts.pictures = {{"Most certain mistakes", {}}};
  const Markup page(made.page());
  EXPECT_EQ(page.fault, "");
  EXPECT_THAT(page.text, AllOf(HasSubstr("There are no mistakes."), HasSubstr("Most certain mistakes\nNone."),
                               HasSubstr("has no metrics.jsonl")));
}

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
