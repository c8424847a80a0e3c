"""Subjects and sentence forms from which data.py makes prompts; none is copied text.

Held out by position: of every eight subjects, forms and follow-ups the last is for tests only.
"""

SUBJECTS = """rainbows; tides; comets; glaciers; volcanoes; thunderstorms; deserts; coral reefs;
caves; rivers and deltas; fossils; magnetism; electric circuits; batteries; lasers; sound waves;
gravity; friction; heat pumps; steam engines; gears and levers; telescopes; microscopes; satellites;
rockets; the Moon's phases; Saturn's rings; black holes; the speed of light; atoms; chemical
reactions; acids and bases; soap; glass; steel; paper making; concrete; plastics; photosynthesis;
seeds; mushrooms; bees; ants; spiders; owls; penguins; whales; sharks; octopuses; frogs; horses;
cats; wolves; elephants; dinosaurs; evolution; DNA; cells; bacteria; viruses; vaccines; antibiotics;
the immune system; the heart; the lungs; muscles; bones; the brain; memory; sleep; dreams;
nutrition; vitamins; sugar; salt; bread; cheese; tea; coffee; chocolate; rice; soup; pancakes;
pickles; spices; olive oil; picnics; kitchen knives; table manners; gardening; compost; houseplants;
lawns; fruit trees; beekeeping; knitting; sewing; pottery; woodworking; origami; painting; drawing
portraits; photography; film editing; theatre; opera; jazz; the violin; the piano; choirs; folk
dances; poetry; novels; fairy tales; crossword puzzles; chess; card games; jigsaw puzzles; kites;
juggling; magic tricks; swimming; cycling; running; hiking; sailing; skiing; climbing; yoga;
football; tennis; archery; camping; maps; compasses; train travel; airports; hotels; passports;
museums; libraries; bridges; tunnels; canals; lighthouses; castles; pyramids; aqueducts; windmills;
skyscrapers; city parks; public transport; traffic lights; recycling; drinking water; sewers; solar
panels; wind turbines; nuclear power; electric cars; insulation; clocks; calendars; the alphabet;
printing; newspapers; radio; television; telephones; the internet; passwords; encryption; computer
viruses; search engines; spreadsheets; databases; compilers; sorting algorithms; binary search; hash
tables; linked lists; recursion; graphs; regular expressions; unit tests; version control; code
reviews; file systems; operating systems; threads; caches; floating-point numbers; prime numbers;
fractions; percentages; triangles; circles; probability; averages; logarithms; matrices; proofs by
induction; paradoxes; optical illusions; money; banks; inflation; taxes; insurance; budgets;
savings; stock markets; auctions; trade; contracts; elections; constitutions; courts; juries;
diplomacy; the Roman Republic; the Silk Road; the Vikings; the Black Death; the Renaissance; the
Industrial Revolution; the Age of Sail; ancient Greece; the Maya; the Ming dynasty; samurai;
feudalism; colonial history; suffrage; railways; exploration of the poles; space races; archaeology;
genealogy; languages; accents; translation; sign language; grammar; spelling; handwriting; public
speaking; job interviews; resumes; meetings; negotiation; teamwork; leadership; mentoring; time
management; procrastination; habits; goals; motivation; stress; friendship; apologies; kindness;
honesty; curiosity; patience; courage; humour; parenting; school; homework; exams; note taking;
reading aloud; learning a language; first aid; fire safety; road safety; earthquakes; floods;
droughts; weather forecasts; climate; seasons; forests; wetlands; oceans; islands; mountains;
farming; irrigation; fishing; markets; street food; festivals; weddings; birthdays; gift giving;
pets; dog training; bird watching; stargazing; robots; drones; sensors; 3D printing; machine
learning; chatbots; video games; board games; podcasts; social media; privacy"""

FORMS = """Explain {s} to a child.|What is the most important thing to know about {s}?|Tell me about
{s}.|Give me three facts about {s}.|Write a short story about {s}.|How do I get started with
{s}?|What are the pros and cons of {s}?|Write a poem about {s}.|Summarize {s} in two sentences.|Why
do people care about {s}?|What is the history of {s}?|List five questions about {s} with
answers.|Write an email to a friend about {s}.|Describe {s} in one paragraph.|What is a common
mistake with {s}?|Make a plan to learn about {s} in one week.|Compare {s} and {t}.|Write a dialogue
about {s}.|What would happen without {s}?|How does {s} relate to {t}?|Write the opening of a talk on
{s}.|Who should learn about {s}, and why?|Give an example that shows how {s} works.|I know nothing
about {s}. Where should I begin?|What are the main ideas behind {s}?|Write a Python function that
has to do with {s}.|Write a short essay on {s}.|Explain the difference between {s} and {t}.|Give me
a checklist for {s}.|Write a quiz with four questions on {s}.|What do experts disagree about when it
comes to {s}?|How has {s} changed in the last hundred years?|Describe a day in the life of someone
who works with {s}.|What tools do I need for {s}?|Write a product description that mentions {s}.|Is
{s} hard to understand? Explain.|Give me ten words related to {s} and define each.|Write a letter of
complaint about {s}.|How would you teach {s} to adults?|What can {s} teach us about life?|Write a
limerick about {s}.|Outline a chapter on {s}.|What are the parts of {s}?|How much does {s}
cost?|Please write a step-by-step guide to {s}.|Write a news report about {s}.|Which myths about {s}
are wrong?|Give advice to a beginner in {s}.|In what ways do {s} and {t} affect each other?|Write a
speech in favor of {s}.|Name some famous people connected with {s}.|What is the future of
{s}?|Create a table of facts about {s}.|Write a review of a book on {s}.|What skills does {s}
need?|Explain {s} using an analogy with {t}.|How can I make {s} more interesting?|What is the
science behind {s}?|Write instructions for a game based on {s}.|Can you give me a definition of
{s}?|Describe {s} to someone from the past.|What problems does {s} solve?|Write a motivational
message about {s}.|Rewrite this in simple words: {s} and {t} are closely linked.|What is special
about {s} in winter?|Plan a lesson on {s} for ten-year-olds.|Suggest a title and three headings for
an article on {s}.|How do {s} work?|Where can I see {s}?|Write two arguments about {s}, one for and
one against.|Tell me a joke about {s}.|What should I avoid when dealing with {s}?|Write a class in
Python that models {s}.|How would you measure {s}?|Give me a fun activity about {s}.|What is the
link between {s} and health?|Write a diary entry about {s}.|Explain why {s} matter to the
economy.|Write a conversation between two friends who disagree on {s}.|Give a short answer: what is
{s}?"""

FOLLOW_UPS = """Can you give an example?|Make it shorter.|Why is that?|Explain it in more
detail.|Thanks! What about {s}?|Write that as a list.|Can you say it in simpler words?|What comes
next?|Is there another way?|Give me two more.|How would I explain that to a friend?|What are the
exceptions?|Now write it as a poem.|Who discovered this?|Summarize our conversation.|Are you
sure?|And how does it relate to {s}?|Rewrite it for an expert.|What should I read next?|Turn it into
a short story.|Which of these is the most important?|Could you write some code for that?|Translate
the main point into plain English.|What is the first step?|I don't understand the last part.|Let's
talk about {s} instead.|Give me the opposite view.|How long does it take?|Ask me a question about
it.|Write a title for it.|Okay. Tell me about {s}.|Please continue."""

TEXT_FORMS = """Summarize the following text.|What is this text about?|Explain this in simple
words.|List the main points of the text below.|Rewrite this text more clearly.|Continue this
text.|Ask three questions about this text.|Give this text a title and explain your choice."""

CODE_FORMS = """Explain this function.|What does this code do?|Find possible bugs in this
code.|Continue this code.|Write a docstring for this code.|Rewrite this code so that it is easier to
read.|Write a test for this code.|Explain this code line by line."""

SYSTEMS = """You are a helpful assistant.|You are a patient teacher.|Answer in one short
paragraph.|You are an experienced programmer.|Answer like a pirate.|You are a careful scientist.|Be
brief.|You are a friendly guide who loves examples."""


# For training alone: what the third training's questions add, so that fewer of them are alike.
MORE_SUBJECTS = """mirrors; static electricity; radio waves; pendulums; pulleys; levees; quicksand;
geysers; hurricanes; tornadoes; snowflakes; hail; fog; earthquakes; meteors; the asteroid belt;
Mars; Jupiter; the Milky Way; gravity waves; space stations; rocket fuel; titanium; aluminium; gold;
diamonds; crystals; rust; fire; candles; fireworks; paint; ink; perfume; rubber; cotton; wool; silk;
leather; bricks; mortar; roofs; chimneys; staircases; elevators; cranes; bulldozers; tractors;
combine harvesters; wheat; corn; potatoes; tomatoes; onions; garlic; apples; bananas; oranges;
grapes; wine; beer; honey; butter; yogurt; ice cream; pasta; pizza; sushi; curry; barbecue; salads;
sandwiches; breakfast; school lunches; vegetarian cooking; food safety; allergies; headaches; the
flu; fevers; first aid; dentists; eyeglasses; hearing aids; physical therapy; stretching;
meditation; breathing exercises; stress; anger; grief; friendship; honesty; patience; curiosity;
leadership; teamwork; job interviews; resumes; meetings; remote work; small businesses; marketing;
advertising; customer service; supply chains; warehouses; shipping containers; trucks; bicycles;
motorcycles; scooters; helicopters; drones for farming; parachutes; hot-air balloons; submarines;
coral; jellyfish; dolphins; salmon; turtles; crocodiles; snakes; lizards; eagles; parrots; crows;
chickens; cows; sheep; goats; pigs; rabbits; squirrels; mice; bats; foxes; bears; deer; kangaroos;
pandas; tigers; lions; giraffes; camels; mosses; ferns; cacti; oak trees; rainforests; grasslands;
wetlands; the Arctic; Antarctica; the Sahara; the Amazon; the Nile; the Alps; Iceland; Japan; India;
Brazil; Kenya; Canada; Egypt; ancient Rome; ancient Greece; the Vikings; the Silk Road; the
Renaissance; the Industrial Revolution; world wars; the Cold War; explorers; pirates; knights;
samurai; coins; stamps; flags; anthems; languages; grammar; spelling; handwriting; essays; speeches;
debates; interviews; diaries; science fiction; detective stories; myths; legends; riddles; puppets;
circuses; musicals; drums; guitars; flutes; orchestras; ballet; sculpture; murals; cartoons;
animation; cameras; lighting; fashion; jewelry; furniture; tents; campfires; knots; fishing rods;
surfing; skateboarding; basketball; volleyball; golf; wrestling; gymnastics; marathons; the Olympic
Games; referees; stadiums; variables; loops; functions; classes; stacks; queues; binary trees;
dictionaries; strings; integers; JSON; HTML; CSS; SQL; web servers; APIs; cookies; firewalls;
backups; cloud computing; neural networks; speech recognition; translation software; quantum
computers; circles and spheres; negative numbers; square roots; exponents; algebra; geometry;
statistics; sampling; surveys; graphs and charts; measurement; unit conversion; time zones; leap
years; the seasons; the water cycle; the carbon cycle; climate; earthworms; soil; fertilizer; seeds
and bulbs; pruning; rain barrels; heat waves; droughts; floods; wildfires"""

MORE_FORMS = """What is {s}?|How does {s} work?|Why is {s} important?|What are some examples of
{s}?|Can you help me understand {s}?|I have to give a presentation about {s}. What should I
say?|Write three sentences about {s} and {t}.|Give me a short introduction to {s}.|Who invented
{s}?|When did people first learn about {s}?|How do I choose between {s} and {t}?|Write a Python
function that prints a table about {s}.|Write a haiku about {s}.|Translate to simple English: {s}
can be affected by {t}.|Make a list of pros and cons of {s}.|What questions should I ask about
{s}?|My son asked me about {s}. What do I tell him?|Which is better, {s} or {t}, and why?|Write a
blog post about {s}.|Write a short dialogue between a teacher and a student about {s}.|Give a
definition of {s} and use it in a sentence.|Write a headline about {s}.|What is the difference
between {s} and {t}?|Write a story in which {s} and {t} play a part.|How can I save money when it
comes to {s}?|What are the risks of {s}?|What are the benefits of {s}?|Describe how {s} looks, sounds
and smells.|Tell me something surprising about {s}.|Write a tweet about {s}.|How do scientists study
{s}?|I am bored. Tell me about {s}.|What would you ask an expert on {s}?|Write a SQL query for a
table about {s}.|Write an outline for a book about {s}.|Give me a recipe or a plan that involves
{s}.|Is it true that {s} can be dangerous?|In one sentence, what is {s}?|How do you spell and define
{s}?|Suggest five names for a club about {s}.|Write a formal letter about {s}.|Write a thank-you note
that mentions {s}.|How would the world be without {s}?|Explain {s} step by step.|Can {s} be replaced
by {t}?|Write a multiple-choice question about {s}.|What is a good book about {s}?|Imagine you are
{s}. Introduce yourself.|What does a beginner get wrong about {s}?|Write JSON that describes
{s}.|Classify {s} and {t}.|Correct this sentence: {s} are very importants for {t}.|Continue the
story: One morning, {s} changed everything.|How long does it take to learn about {s}?|Name three
things that {s} and {t} have in common."""


def pool(text, mark):
    return [" ".join(item.split()) for item in text.split(mark)]


def split_of(items, split):
    """The last of every eight is the test's."""
    return [item for i, item in enumerate(items) if (i % 8 == 7) == (split == "test")]


HELD_OUT = (("subjects", SUBJECTS, ";"), ("forms", FORMS, "|"))


def pools(split, more=False):
    """{name: [sentence]} of a split; `more` adds what is for training alone."""
    found = {"subjects": split_of(pool(SUBJECTS, ";"), split)}
    sources = {
        "forms": FORMS,
        "follow_ups": FOLLOW_UPS,
        "text_forms": TEXT_FORMS,
        "code_forms": CODE_FORMS,
        "systems": SYSTEMS,
    }
    for name, text in sources.items():
        found[name] = split_of(pool(text, "|"), split)
    if more:
        tests = {name: set(split_of(pool(text, mark), "test")) for name, text, mark in HELD_OUT}
        for name, text, mark in (("subjects", MORE_SUBJECTS, ";"), ("forms", MORE_FORMS, "|")):
            found[name] += [x for x in pool(text, mark) if x not in tests[name]]
    return found
