// Evaluator: precision @ 1 of a model's parameters on a data set, every record counted once at any number of ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "carillon/checkpoint/checkpoint.h"
#include "carillon/comm/mpi.h"
#include "carillon/data/dataset.h"
#include "carillon/graph/executable.h"
#include "carillon/models/model.h"
#include "carillon/step/driver.h"

namespace carillon {

struct Precision {
  std::int64_t correct = 0;
  std::int64_t total = 0;
  double value() const { return static_cast<double>(correct) / static_cast<double>(total); }
  /// "precision @ 1 = 0.984 (9840/10000)"
  std::string text() const;
};

class Evaluator {
 public:
  /// `device` outlives the evaluator. `batch_size` records go through the network at a time.
  Evaluator(const Model& model, const ModelSettings& settings, std::int64_t batch_size, Device& device);

  /// Uses the variables of a checkpoint, or their moving averages, from now on. Errors: data (another model's).
  void load(const LoadedCheckpoint& checkpoint, bool averages);
  /// Rank 0's parameters to every rank. Collective.
  void broadcast_from_first(const Mpi& mpi);
  /// The averages of a store of the same model on the same device, as the parameters from now on.
  void load_averages(const ParameterStore& trained);

  /// Every rank takes a contiguous part of the records; the counts are summed. Collective. Errors: those of
  /// Dataset::read on the rank that met one.
  Precision evaluate(const Dataset& dataset, const Mpi& mpi);

 private:
  struct Network {
    Graph graph;
    Value logits;
  };
  static Network build(const Model& model, const ModelSettings& settings, std::int64_t batch_size, DType activations);
  Evaluator(Network network, const Model& model, Device& device);
  /// Correct ones among the valid samples of `batch`.
  std::int64_t count_correct(const Batch& batch);

  Device& device_;
  Graph graph_;
  Value logits_;
  std::unique_ptr<BatchFeed> feed_;
  ParameterStore parameters_;
  Executable executable_;
};

}  // namespace carillon
