// What the host reads of launches that compute nothing (tests/support/mock_cuda): tokens, trees and
// how much was accepted. Drawn at random, the same in each run; always what the kernel may answer.
#pragma once

namespace versieve::test {

void answer_host_reads();

}  // namespace versieve::test
