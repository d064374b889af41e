// SideWork: orders a second stream beside the one that computes, by events.
//
//   compute  --gradients of bucket 0--ready---gradients of bucket 1--ready----------wait--update
//   side                                 wait--reduce bucket 0--------  wait--reduce bucket 1--done
//
// An event is recorded anew for each bucket: a wait keeps to the point that its event had when the wait was enqueued.
// In a stream capture this is the fork and join that make the side stream part of the graph.
#pragma once

namespace carillon {

/// `Stream`: a handle of work done in order. `Event`: default-constructed, record(stream), make_wait(stream), as
/// CudaEvent.
template <typename Event, typename Stream>
class SideWork {
 public:
  /// `side` outlives this.
  explicit SideWork(const Stream& side) : side_(side) {}

  const Stream& side() const { return side_; }
  /// What `side` is given from now on waits for all that `compute` has now.
  void fork(const Stream& compute) {
    ready_.record(compute);
    ready_.make_wait(side_);
    forked_ = true;
  }
  /// What `compute` is given from now on waits for all that `side` has now.
  void join(const Stream& compute) {
    if (!forked_) return;  // a capture knows nothing of a side stream that never waited for it
    done_.record(side_);
    done_.make_wait(compute);
    forked_ = false;
  }

 private:
  const Stream& side_;
  Event ready_, done_;
  bool forked_ = false;
};

}  // namespace carillon
